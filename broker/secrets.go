package broker

import (
	"context"
	"errors"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/broker/safe"
)

// StoredSecret is a secret of the operator as anybody may see it: never its value.
type StoredSecret struct {
	Name      string    `json:"name"`
	ChangedAt time.Time `json:"changed_at"` // put, or exchanged for its successor
}

// maxSecret is far above any key or token.
const maxSecret = 64 << 10

// Secrets lists the operator's secrets by name.
func (b *Broker) Secrets(ctx context.Context, who Principal) ([]StoredSecret, error) {
	if err := b.withSafe(who, RoleOperator, RoleAuditor); err != nil {
		return nil, err
	}
	rows, err := b.cfg.Safe.Names(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	out := []StoredSecret{}
	for _, r := range rows {
		out = append(out, StoredSecret{r.Name, r.ChangedAt})
	}
	return out, nil
}

// PutSecret keeps a secret under a name, in place of what was there. It is on the
// record first: nobody puts one unseen.
func (b *Broker) PutSecret(ctx context.Context, who Principal, name string, v provider.Secret) (StoredSecret, error) {
	if err := b.withSafe(who, RoleOperator); err != nil {
		return StoredSecret{}, err
	}
	if !safe.ValidName(name) || v.Empty() || len(v.Reveal()) > maxSecret {
		return StoredSecret{}, E(Invalid, "name must be a lower-case letter, then up to 63 of a-z 0-9 . _ -; value must be 1 to 65536 bytes.", nil)
	}
	if err := b.recordSecret(ctx, audit.SecretStored, who, name); err != nil {
		return StoredSecret{}, err
	}
	now := b.now()
	if err := b.cfg.Safe.Put(ctx, name, v); err != nil {
		return StoredSecret{}, unavailable(err)
	}
	return StoredSecret{name, now}, nil
}

// RemoveSecret forgets a secret.
func (b *Broker) RemoveSecret(ctx context.Context, who Principal, name string) (StoredSecret, error) {
	if err := b.withSafe(who, RoleOperator); err != nil {
		return StoredSecret{}, err
	}
	if !safe.ValidName(name) {
		return StoredSecret{}, E(NotFound, "There is no secret of that name.", nil)
	}
	if err := b.recordSecret(ctx, audit.SecretRemoved, who, name); err != nil {
		return StoredSecret{}, err
	}
	err := b.cfg.Safe.Remove(ctx, name)
	switch {
	case errors.Is(err, safe.ErrNone):
		return StoredSecret{}, E(NotFound, "There is no secret of that name.", err)
	case err != nil:
		return StoredSecret{}, unavailable(err)
	}
	return StoredSecret{name, b.now()}, nil
}

func (b *Broker) recordSecret(ctx context.Context, kind string, who Principal, name string) error {
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{b.entry(kind, who.ID, map[string]string{"name": name})}}); err != nil {
		return unavailable(err)
	}
	return nil
}

// withSafe checks the role, and that there is a safe.
func (b *Broker) withSafe(who Principal, roles ...Role) error {
	if err := allow(who, certain, roles...); err != nil {
		return err
	}
	if b.cfg.Safe == nil {
		return E(NotFound, "This broker keeps no secrets: no provider that is configured needs one.", nil)
	}
	return nil
}
