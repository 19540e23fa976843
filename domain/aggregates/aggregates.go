// Package aggregates lists the deciders that Cairn is made of. It decides nothing itself.
package aggregates

import (
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
)

// All are the aggregates, in the order of their names.
func All() []domain.Aggregate {
	return []domain.Aggregate{
		domain.Single[account.State, account.Command, account.Event]("account", 1, account.Commands, account.Events),
		domain.Single[device.State, device.Command, device.Event]("device", 2, device.Commands, device.Events),
		domain.Single[thread.State, thread.Command, thread.Event]("thread", 2, thread.Commands, thread.Events),
	}
}
