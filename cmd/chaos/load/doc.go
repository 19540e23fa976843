// Package load is the clients of the chaos program: people that send commands over HTTP and repeat them until they are
// told what became of them, devices on sockets, and subscribers. All that they ask and are told goes into a history.
package load
