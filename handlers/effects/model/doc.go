// Package model calls language models: it routes a message to an agent, runs an agent's turn, streams
// what is ready to whoever watches, and tells the thread what came of it. The loop is not here: what
// happens next is decided by the thread.
package model
