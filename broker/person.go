package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"ebb/broker/audit"
)

// Principal returns a configured principal, as it is now.
func (b *Broker) Principal(id string) (Principal, bool) {
	cfg, known := b.principals[id]
	if !known {
		return Principal{}, false
	}
	return cfg.Principal, true
}

// Once spends a name: the first to spend it wins, and until then nobody else does
// (Conflict). What is spent is a claim in the ledger, so that replicas share it.
func (b *Broker) Once(ctx context.Context, name string, until time.Time) error {
	if b.down.Load() {
		return unavailable(ErrLost)
	}
	_, err := b.cfg.Ledger.Admit(ctx, Admission{Claims: []Claim{{Key: "once:" + name, Value: "1", Until: until}}})
	switch {
	case errors.Is(err, ErrClaimed):
		return E(Conflict, "This was used already.", err)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// SignedIn puts on the record that a person began a session of the console. Nobody is
// let in unrecorded (I11). Who is not named for break-glass any more has none any more.
func (b *Broker) SignedIn(ctx context.Context, who Principal, method string, until time.Time) error {
	if err := b.steadyClock(); err != nil { // the session would last as much longer
		return err
	}
	if b.MayBreakGlass(who) != nil {
		if err := b.leaveBreakGlass(ctx, who.ID, self, "role"); err != nil {
			return err
		}
	}
	return b.session(ctx, audit.SessionBegan, who, map[string]any{"method": method, "roles": who.Roles, "groups": who.Groups, "exp": until})
}

// SignedOut puts on the record that sessions of a person ended. It is past: a record
// that cannot be written keeps nobody in.
func (b *Broker) SignedOut(ctx context.Context, who Principal, sessions int) {
	if err := b.session(ctx, audit.SessionEnded, who, map[string]any{"sessions": sessions}); err != nil {
		b.cfg.Logger.WarnContext(ctx, "the end of a session is not on the record", "actor", who.ID, "error", err)
	}
}

// PasskeyAdded puts on the record that a person has another passkey, and which key it
// is: what is kept of a decision names the key that signed it, and whose that was only the
// record says.
func (b *Broker) PasskeyAdded(ctx context.Context, who Principal, id string, publicKey []byte) error {
	sum := sha256.Sum256(publicKey)
	return b.session(ctx, audit.PasskeyAdded, who, map[string]any{"passkey": id, "public_key_sha256": hex.EncodeToString(sum[:])})
}

// PasskeyRenamed puts on the record what a person calls a passkey from now on.
func (b *Broker) PasskeyRenamed(ctx context.Context, who Principal, id, name string) error {
	return b.session(ctx, audit.PasskeyRenamed, who, map[string]any{"passkey": id, "name": name})
}

// PasskeyRemoved puts on the record that a person has a passkey no more.
func (b *Broker) PasskeyRemoved(ctx context.Context, who Principal, id string) error {
	return b.session(ctx, audit.PasskeyRemoved, who, map[string]any{"passkey": id})
}

func (b *Broker) session(ctx context.Context, kind string, who Principal, data map[string]any) error {
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{b.entry(kind, who.ID, data)}}); err != nil {
		return unavailable(err)
	}
	return nil
}
