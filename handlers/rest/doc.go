// Package rest is Cairn's HTTP interface under /api/v1: accounts and sessions, threads and their
// timelines, runs, devices, a scope's events, and the plain form of chat. Everything is answered by the
// caller's scope; what belongs to another does not exist. It decides nothing and stores nothing: writes
// are commands, reads are read models, and sockets are handlers/live's.
package rest
