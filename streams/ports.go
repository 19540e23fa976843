package streams

import (
	"context"
	"errors"
	"time"

	"github.com/cairnhq/cairn/domain"
)

// Asker sends commands and waits for the answer.
type Asker interface {
	// Ask answers when the command's commit was read back from the log, at most after 15 s.
	// Errors: *domain.Rejection (the decision is no; CodeIDReused for another request under a used id),
	// ErrOutcomeUnknown (repeat it under the same id), *Busy (not sent), or a fault before sending.
	Ask(ctx context.Context, c Command) (Answer, error)
}

// Command is a command on its way, with what is known of who sent it.
type Command struct {
	Scope domain.Scope
	// ID is UUIDv5(scope, request id); see CommandID.
	ID string
	// Minted says that ID was drawn at random for this command: nobody can have used it before, so it is not
	// looked up. Not for an id that came from, or was derived from, anything that may come again, and not for a repeat.
	Minted        bool
	Actor         domain.Actor
	CorrelationID string // empty: ID
	CausationID   string
	// Request is the client's request as received, which the fingerprint covers. Empty: the encoded Body.
	Request []byte
	Body    domain.Command
}

// Answer says where the events of an accepted command ended up.
type Answer struct {
	CommandID string
	// Heads are the streams it appended to and their versions afterwards; empty for a command that changed nothing.
	Heads    []Head
	Position Position // of the scope afterwards
	// Repeated says that the command had been decided before.
	Repeated  bool
	DecidedAt time.Time
}

// Head is a stream's newest version.
type Head struct {
	Stream  domain.Stream
	Version uint64
}

// ErrOutcomeUnknown is the answer when nobody knows in time whether a command was decided.
var ErrOutcomeUnknown = errors.New("the outcome is not known: repeat the request under the same id")

// Busy is the answer when the system refuses to take a command now. Nothing was sent.
type Busy struct {
	Reason     string
	RetryAfter time.Duration
}

// Error says why.
func (b *Busy) Error() string { return "busy: " + b.Reason }

// Tailer reads the log of a partition: counted commits only, in order, for ever.
type Tailer interface {
	Partitions() int32
	// PartitionOf is where a scope lies.
	PartitionOf(domain.Scope) int32
	// Tail hands batches to handle until ctx ends or handle fails. Every batch moves the checkpoint, also
	// one without commits. It returns ctx's error or handle's.
	Tail(ctx context.Context, partition int32, from Checkpoint, handle func(context.Context, Batch) error) error
	// End is the offset after the last record of a partition now.
	End(ctx context.Context, partition int32) (int64, error)
	// Live is a checkpoint at the end of the partition now: the acceptance state after everything before it.
	Live(ctx context.Context, partition int32) (Checkpoint, error)
}

// Batch is what a Tailer read: From is the checkpoint before it, Next the one after it.
type Batch struct {
	Partition int32
	From      Checkpoint
	Next      Checkpoint
	Commits   []Commit
}

// Around is what is stored of a partition about one position of a scope.
type Around struct {
	// Next: what lies before this offset is stored. Negative: nothing of this era is.
	Next int64
	// Before is the offset of the position before, or -1 in an earlier era; nil: it is not stored. At is that of the position
	// itself; nil: it is not stored, or in an earlier era.
	Before, At *int64
}

// StateRow is a stream's state as a writer keeps it.
type StateRow struct {
	Scope   domain.Scope
	Stream  domain.Stream
	Version uint64
	Hash    []byte
	Fold    int
	State   []byte
}

// ScopeRow is what a writer keeps of a scope.
type ScopeRow struct {
	Scope     domain.Scope
	Position  uint64
	DecidedAt string
	Erased    bool
}

// AnswerRow is a decided command id and its answer, kept for ever.
type AnswerRow struct {
	Scope       domain.Scope
	CommandID   string
	Fingerprint []byte
	Rejected    *domain.Rejection
	Heads       []Head
	Position    uint64
	Era         int
	Partition   int32
	Offset      int64 // of the commit in the log
	DecidedAt   string
}

// Snapshot is what States.Load found, all of it in one statement with the checkpoint it holds for.
type Snapshot struct {
	Checkpoint Checkpoint
	States     []StateRow // only those that exist
	Scopes     []ScopeRow
	Answers    []AnswerRow
}

// Lookup names what to load: streams with their scopes, scopes, and command ids.
type Lookup struct {
	Streams  []StreamKey
	Scopes   []domain.Scope
	Commands []CommandKey
}

// StreamKey is a stream and its scope.
type StreamKey struct {
	Scope  domain.Scope
	Stream domain.Stream
}

// CommandKey is a command id and its scope.
type CommandKey struct {
	Scope domain.Scope
	ID    string
}

// Flush is what a writer stores about once a second.
type Flush struct {
	Partition int32
	Expected  Checkpoint // the checkpoint it stored last
	Next      Checkpoint
	States    []StateRow
	Scopes    []ScopeRow
	Answers   []AnswerRow
}

// ErrFlushConflict says that another writer moved the checkpoint: drop everything and take over anew.
var ErrFlushConflict = errors.New("another writer stored this partition's states")

// States is what a writer keeps between batches (Postgres; in memory for tests in virtual time).
type States interface {
	// Load answers for one partition in one statement. A partition never stored has Start() as checkpoint.
	Load(ctx context.Context, partition int32, what Lookup) (Snapshot, error)
	// Store moves the checkpoint from Expected to Next (first statement; zero rows: ErrFlushConflict) and
	// writes the rows in the same transaction. A state row is written only by a higher version or another fold.
	Store(ctx context.Context, f Flush) error
}

// History reads a stream's events from a read model, to fold a state again.
type History interface {
	// Stream calls each for the events with a version over after, in order, and answers the last version it has.
	Stream(ctx context.Context, key StreamKey, after uint64, each func(Recorded) error) (uint64, error)
}

// Keys opens and makes the data keys of scopes. A key stays in memory at most 60 s.
type Keys interface {
	// Current is the key to seal with; it mints the scope's first one.
	Current(ctx context.Context, scope domain.Scope) (Key, error)
	// Version is the key that sealed something.
	Version(ctx context.Context, scope domain.Scope, version int) (Key, error)
	// Index is the scope's index key (32 bytes), for HMACs of ids and fingerprints.
	Index(ctx context.Context, scope domain.Scope) ([]byte, error)
}

// Key is an opened data key.
type Key struct {
	Version int
	AEAD    AEAD
}

// AEAD seals with associated data, the nonce inside the ciphertext (tink.AEAD has this form).
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// The three ways not to have a key, which are never mixed up.
var (
	ErrKeysUnreachable = errors.New("the vault can't be reached")
	ErrKeyAbsent       = errors.New("the data key is not in the vault")
	ErrScopeErased     = errors.New("the scope was erased and its key destroyed")
)

// LiveFrame is something provisional, for whoever watches now. It is never stored.
type LiveFrame struct {
	Scope   domain.Scope
	Stream  domain.Stream
	RunID   string
	Turn    int
	Attempt int
	N       int // 1, 2, 3 … within the attempt
	// Kind is "text", "block", "reasoning", "retry" or "tool".
	Kind string
	// Offset is how many bytes of formatted text, and Blocks how many blocks, the attempt had sent before this frame.
	Offset int
	Blocks int
	// Text or Data; personal content, sealed on the wire.
	Text string
	Data []byte // JSON
	// Trace is the traceparent of what sent it, or "". Publish takes it from its context.
	Trace string
}

// Live carries provisional frames, at most once and unordered with the log.
type Live interface {
	Publish(ctx context.Context, f LiveFrame) error
	// Follow hands every frame published from now on to handle, until ctx ends.
	Follow(ctx context.Context, handle func(LiveFrame)) error
}
