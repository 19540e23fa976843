package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams/codec"
)

// Upgrade is how far an upgrade is.
type Upgrade struct {
	Level     int            `json:"level"`      // what may be written
	Knows     int            `json:"knows"`      // what this release can read
	New       []string       `json:"new"`        // what may be written once it is finalized
	Processes []work.Process `json:"processes"`  // those that run
	Behind    []string       `json:"behind"`     // those of them that can't read it
	CanFinish bool           `json:"can_finish"` // nothing stands in the way
}

// ErrBehind says that a process runs that could not read what would be written.
var ErrBehind = errors.New("a process runs that could not read it")

// UpgradeStatus is how far an upgrade to this release is.
func (o *Operator) UpgradeStatus(ctx context.Context) (Upgrade, error) {
	if err := o.openVault(ctx); err != nil {
		return Upgrade{}, err
	}
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		return Upgrade{}, err
	}
	u := Upgrade{Knows: schema.Level()}
	if u.Level, err = o.vault.FormatLevel(ctx); err != nil {
		return u, err
	}
	u.New = schema.New(u.Level)
	slices.Sort(u.New)
	if u.Processes, err = o.Work().Processes(ctx); err != nil {
		return u, err
	}
	for _, p := range u.Processes {
		if p.Level < u.Knows {
			u.Behind = append(u.Behind, fmt.Sprintf("%s (%s, %s, level %d)", p.Host, p.Version, p.Roles, p.Level))
		}
	}
	u.CanFinish = u.Level < u.Knows && len(u.Behind) == 0
	return u, nil
}

// Finalize lets this release write all that it knows. From then on no older one can start.
func (o *Operator) Finalize(ctx context.Context) (Upgrade, error) {
	u, err := o.UpgradeStatus(ctx)
	if err != nil {
		return u, err
	}
	if len(u.Behind) > 0 {
		return u, fmt.Errorf("%w: %s", ErrBehind, strings.Join(u.Behind, "; "))
	}
	if u.Level >= u.Knows {
		return u, nil
	}
	if err := o.vault.RaiseFormatLevel(ctx, u.Knows); err != nil {
		return u, err
	}
	return o.UpgradeStatus(ctx)
}
