// Package reconnect holds the delivery of events to its contract: witnesses follow streams over real sockets while
// connections, gateways, projectors and partitions come and go under writes, and what each was given is judged against the
// log. It is for the chaos program and its tests only.
package reconnect
