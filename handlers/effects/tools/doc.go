// Package tools is the catalogue of the built-in chat agents: who they are, the tools they have, how a
// call becomes a plan of steps, and how results become words that the model reads. It sends nothing
// itself, but for the server steps (Server), which compute what a device has to do next.
package tools
