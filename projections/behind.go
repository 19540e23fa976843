package projections

import (
	"errors"
	"fmt"
	"time"
)

// Behind is the answer of a read model that did not get to a position in time.
type Behind struct {
	Model     string
	Partition int32
	Next      int64 // the log offset it reads next
	Want      int64 // the log offset it has not read yet
}

// Error says how far it is.
func (b *Behind) Error() string {
	return fmt.Sprintf("the read model %s is behind: it stands at offset %d of partition %d and has not read %d", b.Model, b.Next, b.Partition, b.Want)
}

// Paused is the answer of a read model that an operator paused before a position.
type Paused struct {
	Projection string
	Since      time.Time
	By         string
	Partition  int32
	Next       int64 // the log offset it reads next
	Want       int64 // the log offset it has not read yet
}

// ErrPaused is what a *Paused is.
var ErrPaused = errors.New("the projector is paused")

// Error says since when and how far it is.
func (p *Paused) Error() string {
	return fmt.Sprintf("projector %s is paused since %s: it stands at offset %d of partition %d and has not read %d",
		p.Projection, p.Since.Format(time.RFC3339), p.Next, p.Partition, p.Want)
}

// Is makes a *Paused an ErrPaused.
func (p *Paused) Is(target error) bool { return target == ErrPaused }

// Unknown is the answer for a position that the log has not.
type Unknown struct {
	Partition int32
	End       int64 // of the log; 0: it was not asked
	Want      int64 // the log offset of the position
}

// ErrUnknown is what an *Unknown is.
var ErrUnknown = errors.New("the log has no such position")

// Error says what was asked for.
func (u *Unknown) Error() string {
	return fmt.Sprintf("the log has no offset %d in partition %d: it ends at %d", u.Want, u.Partition, u.End)
}

// Is makes an *Unknown an ErrUnknown.
func (u *Unknown) Is(target error) bool { return target == ErrUnknown }
