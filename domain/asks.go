package domain

import "time"

// What an event asks of the world is read from its clear data, by the interfaces below. The open
// effects and timers read models are folds of these and know nothing else of an aggregate.

// Effect is slow work that an event asks for.
type Effect struct {
	// ID is unique in the scope: an intent has one, its outcome names it.
	ID string
	// Kind says who does it: "route", "turn", "device", "server", …
	Kind string
	// Group is what is closed at once, such as a run's id.
	Group string
	// Device is the device that must do it, if one must.
	Device string
	// Repeatable work is taken by another worker when its own dies. Other work begins with a command
	// that is accepted once, and ends as "outcome unknown" when its worker dies after that.
	Repeatable bool
}

// Opens is an event that asks for effects.
type Opens interface{ Opens() []Effect }

// Starts is an event that says that effects have begun that must not be repeated.
type Starts interface{ Starts() []string }

// Closes is an event that is the outcome of effects.
type Closes interface{ Closes() []string }

// ClosesGroup is an event that ends every open effect and timer of a group.
type ClosesGroup interface{ ClosesGroup() string }

// ClosesScope is an event that ends every open effect and timer of its scope: nothing can be decided there any more.
type ClosesScope interface{ ClosesScope() }

// Timer is a wish to be woken. It is due After the event's decided_at, by the database's clock.
type Timer struct {
	// ID is unique in the stream; setting it again moves it.
	ID    string
	Group string
	After time.Duration
}

// Sets is an event that sets timers.
type Sets interface{ Sets() []Timer }

// Clears is an event that clears timers by id.
type Clears interface{ Clears() []string }
