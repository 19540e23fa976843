package backup

import (
	"fmt"
	"io"
	"time"
)

// Progress says on a writer what is done, about once in two seconds.
type Progress struct {
	out  io.Writer
	last time.Time
}

// NewProgress is a progress that writes lines to out.
func NewProgress(out io.Writer) *Progress { return &Progress{out: out, last: time.Now()} }

// Step says how far a part of the work is, unless something was said a moment ago. A total of 0 is not known.
func (p *Progress) Step(what string, done, total int64) {
	if p == nil || time.Since(p.last) < 2*time.Second {
		return
	}
	p.last = time.Now()
	if total > 0 {
		fmt.Fprintf(p.out, "cairn: %s: %d of %d (%d %%)\n", what, done, total, done*100/total)
		return
	}
	fmt.Fprintf(p.out, "cairn: %s: %d\n", what, done)
}

// Say says what begins now.
func (p *Progress) Say(format string, args ...any) {
	if p != nil {
		p.last = time.Now()
		fmt.Fprintf(p.out, "cairn: "+format+"\n", args...)
	}
}
