// Package fanout hands what is committed to all who listen in this process: one tail of a partition for everybody, a
// commit prepared once, and a subscription that is no more than a cursor into it. It knows no socket and no HTTP.
//
// A subscription is pulled, not pushed to: however slow its reader is, nothing is kept for it. Each partition has a ring
// of its recent commits, indexed by scope and by stream; who is behind it reads pages, of the stored events first and of
// the log where those end. Pages are shared by all who need them.
package fanout
