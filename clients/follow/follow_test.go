package follow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/clients/follow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a follower until the test ends; its error is answered by the function. The context ends when it does.
func run(t *testing.T, f *follow.Follower) (live context.Context, ended func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	live, die := context.WithCancelCause(within(t))
	done := make(chan error, 1)
	go func() {
		err := f.Run(ctx)
		die(err)
		done <- err
	}()
	ended = func() error {
		select {
		case err := <-done:
			done <- err
			return err
		case <-time.After(30 * time.Second):
			return errors.New("it goes on and on")
		}
	}
	t.Cleanup(func() {
		cancel()
		die(ended())
	})
	return live, ended
}

// end runs a follower that ends by itself.
func end(t *testing.T, f *follow.Follower) error {
	t.Helper()
	_, ended := run(t, f)
	return ended()
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestEveryEventIsHandedOnOnce: whatever happens to connections and frames, what is handed on is what was committed.
func TestEveryEventIsHandedOnOnce(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			all := story(300)
			b := serve(t, all)
			b.cut = func() int { return 200 + r.IntN(40_000) }
			b.slip = func() int { return r.IntN(12) }
			f, err := follow.New(b.options(follow.Framing(seed % 2)))
			check(t, err)
			var got, stream []string
			whole, err := f.Follow(follow.Want{ID: "all", Scope: scope, From: &follow.Place{}, Proof: follow.Verified, OnEvent: func(e follow.Event) error {
				got = append(got, e.ID)
				return nil
			}})
			check(t, err)
			one, err := f.Follow(follow.Want{ID: "one", Stream: "thread-0", From: &follow.Place{}, Proof: follow.Verified, OnEvent: func(e follow.Event) error {
				stream = append(stream, e.ID)
				return nil
			}})
			check(t, err)
			live, _ := run(t, f)
			check(t, whole.Reached(live, uint64(len(all))))
			check(t, one.Reached(live, of(all, "thread-0")))
			for name, s := range map[string]struct{ got, want []string }{
				"scope":  {got, ids(all, "")},
				"stream": {stream, ids(all, "thread-0")},
			} {
				if !slices.Equal(s.got, s.want) {
					t.Errorf("%s: %d events came of %d", name, len(s.got), len(s.want))
				}
			}
			t.Logf("%d connections; scope %+v, stream %+v", f.Connects(), whole.Counts(), one.Counts())
		})
	}
}

// TestAForgedEventIsRefused: whoever changes anything of what was committed is found out.
func TestAForgedEventIsRefused(t *testing.T) {
	for name, forge := range map[string]func(*follow.Event){
		"another time":         func(e *follow.Event) { e.At = "2030-01-01T00:00:00Z" },
		"another stored time":  func(e *follow.Event) { e.At, e.Stored.At = "2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z" },
		"another actor":        func(e *follow.Event) { e.Actor = []byte(`{"kind":"worker"}`) },
		"another type":         func(e *follow.Event) { e.Type += "x" },
		"another schema":       func(e *follow.Event) { e.Schema++ },
		"another id":           func(e *follow.Event) { e.ID += "x" },
		"other data":           func(e *follow.Event) { e.Data = []byte(`{"n":1000}`) },
		"other stored data":    func(e *follow.Event) { e.Stored.Data = `{"n":1000}` },
		"other content":        func(e *follow.Event) { text := `{"title":"forged"}`; e.Stored.Text = &text },
		"another digest":       func(e *follow.Event) { e.SealDigest = e.Hash },
		"another salt":         func(e *follow.Event) { e.Salt = "00" },
		"another hash":         func(e *follow.Event) { e.Hash = e.Hash[2:] + "00" },
		"no hash":              func(e *follow.Event) { e.Hash = "" },
		"another stream":       func(e *follow.Event) { e.Stream = "thread-9" },
		"a version left out":   func(e *follow.Event) { e.Seq++ },
		"a version once again": func(e *follow.Event) { e.Seq-- },
		"no stored bytes":      func(e *follow.Event) { e.Stored = nil },
	} {
		t.Run(name, func(t *testing.T) {
			all := story(40)
			b := serve(t, all)
			b.forge = func(e *follow.Event) {
				if e.Position == 31 {
					forge(e)
				}
			}
			f, err := follow.New(b.options(follow.Batched))
			check(t, err)
			n := 0
			_, err = f.Follow(follow.Want{ID: "all", Scope: scope, From: &follow.Place{}, Proof: follow.Verified, OnEvent: func(follow.Event) error {
				n++
				return nil
			}})
			check(t, err)
			var wrong *follow.Violation
			if err := end(t, f); !errors.As(err, &wrong) || n != 30 {
				t.Fatalf("after %d events: %v", n, err)
			}
		})
	}
}

// TestAPlaceOutlivesTheProgram: another follower goes on where the first was, and holds the chain across both.
func TestAPlaceOutlivesTheProgram(t *testing.T) {
	all := story(100)
	b := serve(t, all)
	var kept follow.Place
	var got []string
	for _, until := range []uint64{10, 11, of(all, "thread-1")} {
		f, err := follow.New(b.options(follow.Single))
		check(t, err)
		enough := errors.New("enough")
		_, err = f.Follow(follow.Want{ID: "one", Stream: "thread-1", From: new(kept), Proof: follow.Verified,
			OnEvent: func(e follow.Event) error {
				if e.Seq > until {
					return enough
				}
				got = append(got, e.ID)
				return nil
			},
			OnPlace: func(p follow.Place) {
				kept = p
				if p.Cursor == of(all, "thread-1") {
					f.Cut()
				}
			},
		})
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(300*time.Millisecond, cancel) // the last one has nothing that ends it
		if err := f.Run(ctx); !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		stop.Stop()
		cancel()
	}
	if !slices.Equal(got, ids(all, "thread-1")) {
		t.Fatalf("%d events came of %d", len(got), of(all, "thread-1"))
	}
}

// TestWhatEndsASubscription: a reset goes on from where its owner says, or ends it; so do refusals that waiting does not mend.
func TestWhatEndsASubscription(t *testing.T) {
	all := story(50)
	b := serve(t, all)
	t.Run("a reset that is taken", func(t *testing.T) {
		f, err := follow.New(b.options(follow.Batched))
		check(t, err)
		var got []string
		var told follow.Reset
		taken := make(chan struct{})
		s, err := f.Follow(follow.Want{ID: "all", Scope: scope, From: &follow.Place{Cursor: 1000}, Proof: follow.Verified,
			OnEvent: func(e follow.Event) error {
				if got = append(got, e.ID); len(got) == 30 {
					close(taken)
				}
				return nil
			},
			OnReset: func(r follow.Reset) (follow.Place, error) { told = r; return follow.Place{Cursor: 20}, nil },
		})
		check(t, err)
		live, _ := run(t, f)
		select {
		case <-taken:
		case <-live.Done():
			t.Fatal(context.Cause(live))
		}
		if told.Reason != "beyond_head" || told.Head.Cursor != 50 || s.Counts().Resets != 1 {
			t.Fatalf("reset %+v, and then %d events", told, len(got))
		}
	})
	t.Run("a reset that nobody takes", func(t *testing.T) {
		f, err := follow.New(b.options(follow.Batched))
		check(t, err)
		_, err = f.Follow(follow.Want{ID: "all", Scope: scope, From: &follow.Place{Cursor: 7, Hash: all[7].Hash}, OnEvent: func(follow.Event) error { return nil }})
		check(t, err)
		var told *follow.Reset
		if err := end(t, f); !errors.As(err, &told) || told.Reason != "other_hash" {
			t.Fatal(err)
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		f, err := follow.New(b.options(follow.Batched))
		check(t, err)
		_, err = f.Follow(follow.Want{ID: "x", Stream: "thread-x", OnEvent: func(follow.Event) error { return nil }})
		check(t, err)
		var told *follow.Refusal
		if err := end(t, f); !errors.As(err, &told) || told.Code != "not_found" {
			t.Fatal(err)
		}
	})
	t.Run("a token that is refused", func(t *testing.T) {
		o := b.options(follow.Batched)
		o.Token = func(context.Context) (string, error) { return "bad", nil }
		f, err := follow.New(o)
		check(t, err)
		if err := end(t, f); !errors.Is(err, follow.ErrUnauthorized) {
			t.Fatal(err)
		}
	})
}

// TestTheServersJitterCounts: who is told when to come back comes back then, and not before.
func TestTheServersJitterCounts(t *testing.T) {
	b := serve(t, story(10))
	b.reconnect = 400 * time.Millisecond
	f, err := follow.New(b.options(follow.Batched))
	check(t, err)
	s, err := f.Follow(follow.Want{ID: "all", Scope: scope, From: &follow.Place{}, OnEvent: func(follow.Event) error { return nil }})
	check(t, err)
	began := time.Now()
	live, _ := run(t, f)
	check(t, s.Reached(live, 10))
	b.again(live, 2)
	if took := time.Since(began); took < b.reconnect || f.Told() == 0 {
		t.Fatalf("back after %s, told %d times", took, f.Told())
	}
}

// TestAFilterMovesTheCursor: what is left out is passed over, and a reconnect does not ask for it again.
func TestAFilterMovesTheCursor(t *testing.T) {
	all := story(60)
	b := serve(t, all)
	f, err := follow.New(b.options(follow.Batched))
	check(t, err)
	s, err := f.Follow(follow.Want{ID: "all", Scope: scope, From: &follow.Place{}, Types: []string{"thread.nothing"}, OnEvent: func(follow.Event) error { return errors.New("nothing was wanted") }})
	check(t, err)
	live, _ := run(t, f)
	check(t, s.Reached(live, 60))
	f.Cut()
	b.again(live, 2)
	if after := b.lastAfter(); after != 60 {
		t.Fatalf("asked again after %d", after)
	}
}
