package history

import (
	"context"
	"fmt"

	"github.com/cairnhq/cairn/streams"
)

// Asker is an asker whose caller is a client of the recorder: everything asked through it is recorded.
func (r *Recorder) Asker(client string, ask streams.Asker) streams.Asker {
	return recorded{recorder: r, client: client, ask: ask}
}

type recorded struct {
	recorder *Recorder
	client   string
	ask      streams.Asker
}

// Ask implements streams.Asker.
func (a recorded) Ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	q := Request{Scope: c.Scope, CommandID: c.ID, Fingerprint: string(c.Request), What: fmt.Sprintf("%T", c.Body)}
	if q.Fingerprint == "" {
		q.Fingerprint = fmt.Sprintf("%#v", c.Body)
	}
	op := a.recorder.Invoke(a.client, q)
	answer, err := a.ask.Ask(ctx, c)
	op.Ended(answer, err)
	return answer, err
}
