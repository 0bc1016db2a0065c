package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
)

// ErrStale means that another replica was faster.
var ErrStale = errors.New("another replica was faster")

// Recipient is a channel's own destination, or a person that the channel reaches.
type Recipient struct {
	Channel string
	Person  string // id; "" = the channel's own destination
	Address string // of the person, in the form that the kind of channel uses
}

// Item is one notice for one recipient. The same notice is sent to a recipient once, also
// when it is planned again.
type Item struct {
	Recipient
	Notice Notice
	SendAt time.Time // the earliest time to send it
	Until  time.Time // the latest time to send it
	Digest bool      // it is sent together with others of the same SendAt
}

// ID returns the same id for the same event, subject and recipient.
func (i Item) ID() string {
	return digest("item", i.Channel, i.Person, string(i.Notice.Event), i.Notice.Subject)
}

// MessageID returns the id of the message that contains i.
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

// Reading is an unread range of the audit log of one writer.
type Reading struct {
	Writer   string
	From, To int64 // after From, up to To
	Entries  []audit.Entry
}

// Plan holds the items that follow from a Reading.
type Plan struct {
	Reading
	Items []Item
	Now   time.Time
	// Most limits the messages that are sent to one recipient at once within Window.
	// Further items wait for the next digest, unless Event.Must reports true.
	Most   int
	Window time.Duration
}

// Sources reads the audit log and stores which of it was processed.
type Sources interface {
	// ReadFromHere makes a database that was never read start at the present end of the
	// audit log: no notification is sent about earlier entries.
	ReadFromHere(ctx context.Context) error
	// Unread returns, for every writer with unread entries, a range of at most n entries,
	// and the entries of these kinds in it. A kind that ends in "." is a prefix.
	Unread(ctx context.Context, kinds []string, n int) ([]Reading, error)
	// Keep stores a plan and marks its Reading as read, in one unit. It stores nothing
	// and returns ErrStale when another replica has read the range in the meantime. A plan
	// without a Reading only adds items.
	Keep(ctx context.Context, p Plan) error
	// Told returns the recipients that were notified, or are being notified, of this
	// pending request.
	Told(ctx context.Context, subject string) ([]Recipient, error)
}

// MaxItems is the number of notices that are stored for one message. Further notices are only
// counted.
const MaxItems = 200

// Taken is a message that the caller may send until its claim ends.
type Taken struct {
	Message
	Recipient
	Fence    int64
	Attempts int // before this one
	Created  time.Time
	Until    time.Time // the latest Until of its items
	Items    []Item
}

// Outcome is the result of an attempt at a Taken.
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
	StateFailed  State = "failed"  // refused, or retried for too long
	StateDropped State = "dropped" // it had no current notice left
)

// Sent counts messages that wait, were sent or have failed, of one channel and state.
type Sent struct {
	Channel string
	People  bool // to people's own addresses; false = to the channel's own destination
	State   State
	N       int
	At      time.Time // of the last outcome; zero = StateWaiting
}

// Backlog counts the due messages of one channel.
type Backlog struct {
	Channel string
	Waiting int       // due and not sent
	Oldest  time.Time // since when the oldest of them has been due
}

// Outbox is the durable queue of messages, shared by the replicas. Claims are fenced: if
// two replicas work on one message, only the outcome of the later claim is stored.
type Outbox interface {
	// TakeMessages claims up to n messages of a channel that are due, the oldest first, until hold.
	TakeMessages(ctx context.Context, channel string, now, hold time.Time, n int) ([]Taken, error)
	// SettleMessage stores an outcome. It returns ErrStale when another replica has
	// claimed the message since.
	SettleMessage(ctx context.Context, o Outcome) error
	// Sent counts the messages that a request waits, without those that are due after now, by
	// channel. Messages that ForgetMessages has removed are not counted.
	Sent(ctx context.Context, subject string, now time.Time) ([]Sent, error)
	// Backlogs counts the due messages, by channel.
	Backlogs(ctx context.Context, now time.Time) ([]Backlog, error)
	// ForgetMessages removes messages that were settled before this time.
	ForgetMessages(ctx context.Context, before time.Time) error
}
