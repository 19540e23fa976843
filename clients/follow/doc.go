// Package follow keeps a program level with streams of a backend: it subscribes over the socket, holds each event to the
// order and the hash chain, and comes back after whatever happened to the connection, so that every committed event is
// handed on once and in order. It is not part of the backend and imports nothing of it: the contract between the two is
// frames (docs/protocol.md).
package follow
