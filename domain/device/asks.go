package device

import "github.com/cairnhq/cairn/domain"

// EffectKind is the kind of a device's effects: the gateway that holds the device does them, as it does the calls of runs.
const EffectKind = "device"

func waitTimer(request string) string  { return "wait:" + request }
func offerTimer(request string) string { return "offer:" + request }

// Opens asks for the request to be sent and answered.
func (r Request) Opens() []domain.Effect {
	return []domain.Effect{{ID: r.RequestID, Kind: EffectKind, Device: r.DeviceID, Repeatable: r.Repeatable}}
}

// Sets begins the wait for the device.
func (r Request) Sets() []domain.Timer {
	return []domain.Timer{{ID: waitTimer(r.RequestID), After: r.Wait}}
}

// Starts names the request if it must not be sent again.
func (e RequestOffered) Starts() []string {
	if !e.Started {
		return nil
	}
	return []string{e.RequestID}
}

// Sets begins the device's 30 s.
func (e RequestOffered) Sets() []domain.Timer {
	return []domain.Timer{{ID: offerTimer(e.RequestID), After: OfferFor}}
}

// Clears ends the wait for the device.
func (e RequestOffered) Clears() []string { return []string{waitTimer(e.RequestID)} }

// Closes ends the request.
func (e DataAnswered) Closes() []string { return []string{e.RequestID} }

// Closes ends the request.
func (e DataFailed) Closes() []string { return []string{e.RequestID} }

// Closes ends the request.
func (e MutationCompleted) Closes() []string { return []string{e.RequestID} }

// Closes ends the request.
func (e MutationFailed) Closes() []string { return []string{e.RequestID} }

// Clears ends whatever waited for the request.
func (e DataAnswered) Clears() []string { return timers(e.RequestID) }

// Clears ends whatever waited for the request.
func (e DataFailed) Clears() []string { return timers(e.RequestID) }

// Clears ends whatever waited for the request.
func (e MutationCompleted) Clears() []string { return timers(e.RequestID) }

// Clears ends whatever waited for the request.
func (e MutationFailed) Clears() []string { return timers(e.RequestID) }

func timers(request string) []string { return []string{waitTimer(request), offerTimer(request)} }
