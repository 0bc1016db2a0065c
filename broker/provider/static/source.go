package static

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

// errMissing is wrapped when the secret is not where it should be.
var errMissing = errors.New("static: the secret is not there")

// source is where the secret is.
type source func(context.Context) (secret.Secret, error)

// from is the source of a secret; at is the key of the configuration that names it.
func from(k Kept, at string, s provider.SecretStore, now func() time.Time) (source, error) {
	if k.Vault != nil {
		client, err := vaultapi.New(k.Vault.Config, now)
		if err != nil {
			return nil, fmt.Errorf("%svault: %w", at, err)
		}
		return fromVault(client, *k.Vault), nil
	}
	if s == nil {
		return nil, fmt.Errorf("%ssecret: this process has no secret store to keep it in; configure a sealing key (sealing)", at)
	}
	return fromSafe(s, k.Secret), nil
}

func fromSafe(s provider.SecretStore, name string) source {
	return func(ctx context.Context) (secret.Secret, error) {
		v, err := s.Get(ctx, name)
		if errors.Is(err, secretstore.ErrNone) {
			return v, fmt.Errorf("%w: ebb secrets put %s < file: %w", errMissing, name, err)
		}
		return v, err
	}
}

func fromVault(c *vaultapi.Client, kv KV) source {
	where := kv.Mount + "/data/" + kv.Path
	return func(ctx context.Context) (secret.Secret, error) {
		var out *api.Secret
		err := c.Do(ctx, func(ctx context.Context, c *api.Client) (err error) {
			out, err = c.Logical().ReadWithContext(ctx, where)
			return err
		})
		switch {
		case vaultapi.Status(err) == http.StatusForbidden:
			return secret.Secret{}, fmt.Errorf("static: Vault does not let ebb read %s: its policy needs the capability read there: %w", where, err)
		case err != nil:
			return secret.Secret{}, fmt.Errorf("static: reading %s at Vault: %w", where, err)
		case out == nil: // 404
			return secret.Secret{}, fmt.Errorf("%w: Vault has nothing at %s", errMissing, where)
		}
		fields, _ := out.Data["data"].(map[string]any) // null when the version was deleted
		text, _ := fields[kv.Field].(string)
		if text == "" {
			return secret.Secret{}, fmt.Errorf("%w: at Vault %s has no text in the field %s, or was deleted", errMissing, where, kv.Field)
		}
		return secret.New(text), nil
	}
}
