package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/broker/keys"
)

// KeyDirectory is where the signing keys of Config.Keys are kept.
type KeyDirectory interface {
	// Numbered returns every public key that there is, forgotten ones included.
	Numbered() ([]keys.Numbered, error)
}

// UsedKeys returns the signing keys that the audit log names.
func UsedKeys(ctx context.Context, a Audit) ([]keys.Numbered, error) {
	var out []keys.Numbered
	for e, err := range a.Entries(ctx, EntryFilter{Kind: audit.KeyAdded}) {
		if err != nil {
			return nil, fmt.Errorf("reading which signing keys were used: %w", err)
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

// RevokeKey puts on the audit log that a signing key is given up. Checkpoints that it signed since then do
// not count.
func RevokeKey(ctx context.Context, j Journal, f audit.KeyFact, e audit.Entry) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	e.Kind, e.Actor, e.Data = audit.KeyRevoked, self, data
	return j.Append(ctx, Record{Entries: []audit.Entry{e}})
}

// noteKeys puts each signing key on the audit log once, before a checkpoint is signed by it. Replicas that
// do so at the same moment write it twice, which says the same.
func (b *Broker) noteKeys(ctx context.Context) error {
	if b.cfg.KeyDirectory == nil {
		return nil
	}
	if b.namedKeys == nil {
		used, err := UsedKeys(ctx, b.cfg.Journal)
		if err != nil {
			return err
		}
		b.namedKeys = map[string]bool{}
		for _, k := range used {
			b.namedKeys[k.KID] = true
		}
	}
	all, err := b.cfg.KeyDirectory.Numbered()
	if err != nil {
		return err
	}
	for _, k := range all {
		if b.namedKeys[k.KID] {
			continue
		}
		jwk, err := jose.MarshalPublicJWK(k.Key)
		if err != nil {
			return err
		}
		if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{b.entry(audit.KeyAdded, self, audit.KeyFact{KID: k.KID, Number: k.Number, JWK: jwk})}}); err != nil {
			return err
		}
		b.namedKeys[k.KID] = true
	}
	return nil
}
