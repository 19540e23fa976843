package domain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain"
)

func TestNamesOfScopesAndStreams(t *testing.T) {
	for scope, valid := range map[domain.Scope]bool{
		"user-1": true, "org-a_b-c": true, domain.User("0f"): true,
		"": false, "user-": false, "user": false, "team-1": false, "user-A": false, "user-é": false,
		domain.Scope("user-" + strings.Repeat("a", 121)): false,
	} {
		if scope.Valid() != valid {
			t.Errorf("scope %q: %v", scope, !valid)
		}
	}
	for stream, valid := range map[domain.Stream]bool{
		"thread-1": true, domain.NewStream("path", "a-b"): true, "thread-": false, "thread": false, "-1": false, "Thread-1": false, "thread-1.2": false,
	} {
		if stream.Valid() != valid {
			t.Errorf("stream %q: %v", stream, !valid)
		}
	}
	if s := domain.NewStream("path", "a-b"); s.Kind() != "path" || s.ID() != "a-b" {
		t.Errorf("%q is %q and %q", s, s.Kind(), s.ID())
	}
}

type good struct {
	A int
	B string `json:"-" sealed:"true"`
}

type twoSealed struct {
	A string `json:"-" sealed:"true"`
	B string `json:"-" sealed:"true"`
}

type clearSealed struct {
	A string `json:"a" sealed:"true"`
}

// TestAKindIsAStructWithOneSealedField: anything else is found when the program starts.
func TestAKindIsAStructWithOneSealedField(t *testing.T) {
	k := domain.Named[good]("x.good", domain.Was(func(b []byte) ([]byte, error) { return b, nil }))
	if k.Name() != "x.good" || k.Schema() != 2 || k.SealedField() != 1 || len(k.Upcasts()) != 1 || k.Fresh().Elem().Type() != k.Type() {
		t.Errorf("kind %+v", k)
	}
	for name, f := range map[string]func(){
		"no struct":    func() { domain.Named[int]("x.int") },
		"two sealed":   func() { domain.Named[twoSealed]("x.two") },
		"clear sealed": func() { domain.Named[clearSealed]("x.clear") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was named", name)
				}
			}()
			f()
		}()
	}
}

func TestARejectionIsAnError(t *testing.T) {
	err := domain.Reject(domain.CodeInvalid, "%d is odd", 3)
	var no *domain.Rejection
	if !errors.As(err, &no) || no.Code != "invalid" || err.Error() != "invalid: 3 is odd" {
		t.Error(err)
	}
}

type wide struct{ streams []domain.Stream }

func (w wide) Target() domain.Stream  { return w.streams[0] }
func (w wide) Reads() []domain.Stream { return w.streams }

type folded struct{ N int }

func (f folded) Evolve(int) folded { return folded{f.N + 1} }

type states map[domain.Stream]any

func (s states) State(stream domain.Stream) any { return s[stream] }
func (s states) Version(domain.Stream) uint64   { return 1 }

// TestAcrossStreams: a command that names several streams decides on all of them and may write to each.
func TestAcrossStreams(t *testing.T) {
	a := domain.Across[folded, wide, int]("x", 1, nil, nil, func(v domain.View, c wide) ([]domain.Fact, error) {
		var facts []domain.Fact
		for _, s := range c.Reads() {
			facts = append(facts, domain.Fact{Stream: s, Event: v.State(s).(folded).N})
		}
		return facts, nil
	})
	c := wide{[]domain.Stream{"x-1", "x-2"}}
	facts, err := a.Decide(states{"x-1": folded{1}, "x-2": a.Evolve(folded{1}, 7)}, c)
	if err != nil || len(facts) != 2 || facts[1] != (domain.Fact{Stream: "x-2", Event: 2}) || len(domain.Reads(c)) != 2 {
		t.Errorf("%v, %v", facts, err)
	}
	if _, err := a.Decide(states{}, nil); err == nil {
		t.Error("no command was decided")
	}
}
