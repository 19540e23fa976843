// Package live delivers what happens now: it holds the sockets of devices, follows the log's end and the
// provisional frames, tells the story of a run to whoever asked for it, and carries tool calls to the
// devices that must execute them. It keeps nothing that a restart may not lose, and decides nothing.
package live
