// Package account is what the log knows of an account: that it exists, its tier, that it was erased.
// Credentials and e-mail addresses never come here; they stand in the vault.
package account

import "github.com/cairnhq/cairn/domain"

// Event is a fact of an account.
//
//sumtype:decl
type Event interface{ accountEvent() }

// Events are the wire names of an account's events.
var Events = []domain.Kind{
	domain.Named[Registered]("account.registered"),
	domain.Named[TierChanged]("account.tier_changed"),
	domain.Named[Erased]("account.erased"),
}

// Tier is what an account may use.
type Tier string

// The tiers, and how many agents may be active: 2, 10, and as many as one likes.
const (
	Free  Tier = "free"
	Pro   Tier = "pro"
	Power Tier = "power"
	Team  Tier = "team"
)

// Registered is the first event of an account.
type Registered struct {
	Tier Tier `json:"tier"`
}

// TierChanged moves an account to another tier.
type TierChanged struct {
	From Tier `json:"from"`
	To   Tier `json:"to"`
}

// Erased ends an account and its scope: every later command of the scope is rejected scope_erased.
type Erased struct{}

func (Registered) accountEvent()  {}
func (TierChanged) accountEvent() {}
func (Erased) accountEvent()      {}

// ClosesScope ends all that the account still waits for.
func (Erased) ClosesScope() {}

// Command is a wish about an account.
//
//sumtype:decl
type Command interface {
	domain.Command
	accountCommand()
}

// Commands are the wire names of an account's commands.
var Commands = []domain.Kind{
	domain.Named[Register]("account.register"),
	domain.Named[ChangeTier]("account.change_tier"),
	domain.Named[Erase]("account.erase"),
}

// On says which account a command concerns: the user's id.
type On struct {
	Account string `json:"account"`
}

// Target is the account's stream.
func (o On) Target() domain.Stream { return domain.NewStream("account", o.Account) }

func (On) accountCommand() {}

// Register makes the account; one that is registered already stays as it is (accepted, no events).
type Register struct {
	On
	Tier Tier `json:"tier,omitempty"` // empty: free
}

// ChangeTier moves the account to a tier; the same tier: accepted, no events.
type ChangeTier struct {
	On
	To Tier `json:"to"`
}

// Erase ends the account.
type Erase struct {
	On
}
