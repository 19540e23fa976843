// Package filetest breaks the embedded broker at its files: it ends the process at any operation on them, within a write, as
// a power failure would, and fills the disk. The broker has no seam for that, so its source is copied, the one file that
// calls the operating system is wrapped, and a program on that copy (stage) plays a writer with clients. The broker that
// ships is never the copy. It is for tests.
package filetest
