// Package device is an installed client as a Go program: its user's data in its own SQLite file, the
// socket to the backend, and a journal by which a call that arrives twice is done once. It is not part of
// the backend and imports nothing of it: the contract between the two is frames.
package device
