package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"ebb/broker/audit"
)

// ErrStale means that another replica was faster.
var ErrStale = errors.New("another replica was faster")

// Recipient is a place, or a person at it.
type Recipient struct {
	Channel string
	Person  string // id; "" = the place itself
	Address string // of the person, as the kind knows people
}

// Item is one notice for one recipient. The same notice is told a recipient once, whatever
// is planned again.
type Item struct {
	Recipient
	Notice Notice
	SendAt time.Time // not before
	Until  time.Time // not after: then it says nothing any more
	Digest bool      // it waits for others with the same SendAt
}

// ID is the same for the same notice and recipient.
func (i Item) ID() string {
	return digest("item", i.Channel, i.Person, string(i.Notice.Event), i.Notice.Subject)
}

// MessageID is the id of the message that i becomes, or becomes a part of.
func (i Item) MessageID() string {
	if i.Digest {
		return "msg_" + digest("digest", i.Channel, i.Person, i.SendAt.UTC().Format(time.RFC3339))
	}
	return "msg_" + i.ID()
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte("ebb notify\x00" + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// Reading is a part of the record of one writer that was not looked at yet.
type Reading struct {
	Writer   string
	From, To int64 // after From, up to To
	Entries  []audit.Entry
}

// Plan is what comes of a Reading.
type Plan struct {
	Reading
	Items []Item
	Now   time.Time
	// Most bounds messages at once to one recipient in Window: what is more waits for
	// the digest at the end of the next one, unless its event is one that Must be told.
	Most   int
	Window time.Duration
}

// Sources reads the record and says what was told of it.
type Sources interface {
	// ReadFromHere makes a database that has never been read from start now: what is on the
	// record already is told nobody.
	ReadFromHere(ctx context.Context) error
	// Unread returns of every writer with something new at most n entries' worth, and of
	// those the entries of these kinds; a kind that ends in "." is a prefix.
	Unread(ctx context.Context, kinds []string, n int) ([]Reading, error)
	// Keep makes a plan durable and its Reading read, in one unit: ErrStale when it was read
	// meanwhile, and then nothing is kept.
	Keep(ctx context.Context, p Plan) error
	// Told returns who was told, or is being told, that this request waits.
	Told(ctx context.Context, subject string) ([]Recipient, error)
}

// MaxItems is how many notices of one message are kept; of more only their number is.
const MaxItems = 200

// Taken is a message that the caller may send until its claim ends.
type Taken struct {
	Message
	Recipient
	Fence    int64
	Attempts int // before this one
	Created  time.Time
	Until    time.Time // the latest of its items
	Items    []Item
}

// Outcome is what came of a Taken.
type Outcome struct {
	ID    string
	Fence int64
	State State
	At    time.Time
	Next  time.Time // Waiting: the next attempt
}

// State of a message.
type State string

// States. All but the first are final.
const (
	StateWaiting State = "waiting"
	StateSent    State = "sent"
	StateFailed  State = "failed"  // refused, or tried too long
	StateDropped State = "dropped" // there was nothing left to say
)

// Backlog is what waits at one channel.
type Backlog struct {
	Channel string
	Waiting int       // due, and not sent
	Oldest  time.Time // since when the oldest of them is due
}

// Outbox is the durable queue of messages. Replicas share it: a claim is fenced, so that
// of two that work on one message only the later is heard.
type Outbox interface {
	// TakeMessages claims up to n messages of a channel that are due, the oldest first, until hold.
	TakeMessages(ctx context.Context, channel string, now, hold time.Time, n int) ([]Taken, error)
	// SettleMessage writes down what came of it: ErrStale when somebody else has claimed it since.
	SettleMessage(ctx context.Context, o Outcome) error
	// Backlogs sums up what is due, by channel.
	Backlogs(ctx context.Context, now time.Time) ([]Backlog, error)
	// ForgetMessages removes what was settled before this moment.
	ForgetMessages(ctx context.Context, before time.Time) error
}
