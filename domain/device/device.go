// Package device is an installed client: what it said of itself. Whether it is online is presence, a
// work table, and not here.
package device

import "github.com/cairnhq/cairn/domain"

// Event is a fact of a device.
//
//sumtype:decl
type Event interface{ deviceEvent() }

// Events are the wire names of a device's events.
var Events = []domain.Kind{
	domain.Named[Introduced]("device.introduced"),
}

// Introduced is what a device said in its hello; a later one replaces it.
type Introduced struct {
	Protocol int    `json:"protocol"` // 2 or 3
	Timezone string `json:"timezone,omitempty"`
	Journal  bool   `json:"journal,omitempty"`
	Batch    bool   `json:"batch,omitempty"`
	// NameDigest is HMAC-SHA-256 of the name under the scope's index key, hex: how a change is seen.
	NameDigest string `json:"name_digest,omitempty"`
	Name       Name   `json:"-" sealed:"true"`
}

// Name is the sealed part of Introduced.
type Name struct {
	Text string `json:"text"`
}

func (Introduced) deviceEvent() {}

// Command is a wish about a device.
//
//sumtype:decl
type Command interface {
	domain.Command
	deviceCommand()
}

// Commands are the wire names of a device's commands.
var Commands = []domain.Kind{
	domain.Named[Introduce]("device.introduce"),
}

// Introduce records a hello; one that says nothing new: accepted, no events.
type Introduce struct {
	Device   string `json:"device"`
	Protocol int    `json:"protocol"`
	Timezone string `json:"timezone,omitempty"`
	Journal  bool   `json:"journal,omitempty"`
	Batch    bool   `json:"batch,omitempty"`
	// NameDigest is HMAC-SHA-256 of the name under the scope's index key, hex: how a change is seen.
	NameDigest string `json:"name_digest,omitempty"`
	Name       Name   `json:"-" sealed:"true"`
}

// Target is the device's stream.
func (i Introduce) Target() domain.Stream { return domain.NewStream("device", i.Device) }

func (Introduce) deviceCommand() {}
