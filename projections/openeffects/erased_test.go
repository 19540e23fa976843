package openeffects_test

import (
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/openeffects"
)

// Nothing is open in a scope that was erased: no worker would ever get an outcome accepted there. What opened
// before and in the same batch are alike, and other scopes are left alone.
func TestAnErasedScopeWaitsForNothing(t *testing.T) {
	f := open(t)
	f.append(t, logtest.Post(stream, "before", "laptop")...)
	f.log.Append("user-bob", logtest.Post(stream, "bobs", "laptop")...)
	f.log.Append(ann, logtest.Post("thread-b", "with", "laptop")...)
	f.log.Append(ann, logtest.On("account-ann", account.Erased{})...)
	f.log.Append("user-carl", logtest.Post(stream, "carls", "laptop")...)
	logtest.Wait(t, f.pool, f.log, openeffects.Name)
	for scope, want := range map[domain.Scope]string{ann: "", "user-bob": thread.RouteEffect("bobs", 1), "user-carl": thread.RouteEffect("carls", 1)} {
		left, err := f.model.List(t.Context(), scope, 10)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(left) != 0 || want != "" && (len(left) != 1 || left[0].ID != want) {
			t.Errorf("open in %s: %+v, want %q", scope, left, want)
		}
	}
}
