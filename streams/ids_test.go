package streams_test

import (
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// What a client calls its requests never takes the id of a command of ours, whatever that is called.
func TestClientsCannotTakeOurIDs(t *testing.T) {
	names := []string{"erase", "register", "unknown:r.1.0.1", "result:r.1.0.1", "timer|thread-1|retry:r:1:2|0", ""}
	taken := map[string]string{}
	for _, scope := range []domain.Scope{"user-ann", "user-bob", "own"} {
		for _, name := range names {
			for kind, id := range map[string]string{"a client's": streams.CommandID(scope, name), "our": streams.OwnID(scope, name)} {
				who := kind + " " + name + " of " + string(scope)
				if other, ok := taken[id]; ok {
					t.Errorf("%s has the id of %s", who, other)
				}
				taken[id] = who
			}
		}
	}
}
