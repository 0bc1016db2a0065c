package durability

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
)

// KeyDirectory holds the signing keys of Config.Keys.
type KeyDirectory interface {
	// Numbered returns every public key, including those of deleted private keys.
	Numbered() ([]keys.Numbered, error)
}

// UsedKeys returns the signing keys named in the audit log.
func UsedKeys(ctx context.Context, a broker.Audit) ([]keys.Numbered, error) {
	var out []keys.Numbered
	for e, err := range a.Entries(ctx, broker.EntryFilter{Kind: audit.KeyAdded}) {
		if err != nil {
			return nil, fmt.Errorf("reading the signing keys in the audit log: %w", err)
		}
		var f audit.KeyFact
		if err := json.Unmarshal(e.Data, &f); err != nil {
			return nil, fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
		}
		k, err := jose.ParseJWK(f.JWK)
		if err != nil {
			return nil, fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
		}
		out = append(out, keys.Numbered{Number: f.Number, Key: k})
	}
	return out, nil
}

// RevokeKey records that a signing key is revoked. Checkpoints that it signed after that are
// invalid.
func RevokeKey(ctx context.Context, j broker.Store, f audit.KeyFact, e audit.Entry) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	e.Kind, e.Actor, e.Data = audit.KeyRevoked, kernel.Self, data
	return j.Append(ctx, broker.Record{Entries: []audit.Entry{e}})
}

// noteKeys records each signing key once, before it signs a checkpoint. Replicas may record the
// same key twice, which has no further effect.
func (ig *AuditGuard) noteKeys(ctx context.Context) error {
	if ig.keyDirectory == nil {
		return nil
	}
	if ig.namedKeys == nil {
		used, err := UsedKeys(ctx, ig.store)
		if err != nil {
			return err
		}
		ig.namedKeys = map[string]bool{}
		for _, k := range used {
			ig.namedKeys[k.KID] = true
		}
	}
	all, err := ig.keyDirectory.Numbered()
	if err != nil {
		return err
	}
	for _, k := range all {
		if ig.namedKeys[k.KID] {
			continue
		}
		jwk, err := jose.MarshalPublicJWK(k.Key)
		if err != nil {
			return err
		}
		if err := ig.store.Append(ctx, broker.Record{Entries: []audit.Entry{ig.log.NewEntry(audit.KeyAdded, kernel.Self, audit.KeyFact{KID: k.KID, Number: k.Number, JWK: jwk})}}); err != nil {
			return err
		}
		ig.namedKeys[k.KID] = true
	}
	return nil
}
