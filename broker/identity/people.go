package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Principal returns a configured principal by its current configuration.
func (ac *Accounts) Principal(id string) (broker.Principal, bool) {
	cfg, known := ac.principals[id]
	if !known {
		return broker.Principal{}, false
	}
	return cfg.Principal, true
}

// Approvers returns the configured principals with the right to decide a request.
func (ac *Accounts) Approvers(r broker.Request) (out []broker.Principal) {
	for _, cfg := range ac.principals {
		if broker.MayDecide(cfg.Principal, r) == nil {
			out = append(out, cfg.Principal)
		}
	}
	return out
}

// Once claims a name: the first caller gets it, and every other one until then gets Conflict.
// The claim is in the live store, so that replicas share it.
func (ac *Accounts) Once(ctx context.Context, name string, until time.Time) error {
	if ac.live.Incomplete.Load() {
		return broker.StoreError(broker.ErrLost)
	}
	_, err := ac.liveStore.Admit(ctx, broker.Admission{Claims: []broker.Claim{{Key: "once:" + name, Value: "1", Until: until}}})
	switch {
	case errors.Is(err, broker.ErrClaimed):
		return broker.E(broker.Conflict, "This was used already. Request a new one.", err)
	case err != nil:
		return broker.StoreError(err)
	}
	return nil
}

// SignedIn records that a person began a session of the console. If that cannot be recorded,
// there is no session (I11). It ends the break-glass period of a person who is no longer named
// for break-glass.
func (ac *Accounts) SignedIn(ctx context.Context, who broker.Principal, method string, until time.Time) error {
	if err := ac.clock.SteadyClock(); err != nil { // the session would last longer by the clock's jump
		return err
	}
	if ac.emergencies.MayBreakGlass(who) != nil {
		if err := ac.emergencies.EndOwn(ctx, who.ID, kernel.Self, "role"); err != nil {
			return err
		}
	}
	return ac.session(ctx, audit.SessionBegan, who, map[string]any{"method": method, "roles": who.Roles, "groups": who.Groups, "exp": until})
}

// SignedOut records that sessions of a person ended. A failure is only logged, because the
// sessions have ended already.
func (ac *Accounts) SignedOut(ctx context.Context, who broker.Principal, sessions int) {
	if err := ac.session(ctx, audit.SessionEnded, who, map[string]any{"sessions": sessions}); err != nil {
		ac.logger.WarnContext(ctx, "the end of a session could not be recorded", "actor", who.ID, "error", err)
	}
}

// PasskeyAdded records a person's new passkey and the hash of its public key. A stored decision
// names the key that signed it, and only the audit log says which person that key belongs to.
func (ac *Accounts) PasskeyAdded(ctx context.Context, who broker.Principal, id string, publicKey []byte) error {
	sum := sha256.Sum256(publicKey)
	return ac.session(ctx, audit.PasskeyAdded, who, map[string]any{"passkey": id, "public_key_sha256": hex.EncodeToString(sum[:])})
}

// PasskeyRenamed records a passkey's new name.
func (ac *Accounts) PasskeyRenamed(ctx context.Context, who broker.Principal, id, name string) error {
	return ac.session(ctx, audit.PasskeyRenamed, who, map[string]any{"passkey": id, "name": name})
}

// PasskeyRemoved records that a person's passkey was removed.
func (ac *Accounts) PasskeyRemoved(ctx context.Context, who broker.Principal, id string) error {
	return ac.session(ctx, audit.PasskeyRemoved, who, map[string]any{"passkey": id})
}

// SettingChanged records that a person changed how they are notified.
func (ac *Accounts) SettingChanged(ctx context.Context, who broker.Principal, kind string, data map[string]any) error {
	return ac.session(ctx, kind, who, data)
}

func (ac *Accounts) session(ctx context.Context, kind string, who broker.Principal, data map[string]any) error {
	if err := ac.store.Append(ctx, broker.Record{Entries: []audit.Entry{ac.log.NewEntry(kind, who.ID, data)}}); err != nil {
		return broker.StoreError(err)
	}
	return nil
}
