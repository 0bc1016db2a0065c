package vaultapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/secret"
)

// login obtains a token. The token is the only secret in its result.
func (c *Client) login(ctx context.Context) (*api.SecretAuth, error) {
	a := c.cfg.Auth
	body := map[string]any{}
	switch a.Method {
	case "token":
		s, err := secret.Read(a.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("vault: token_file: %w", err)
		}
		return &api.SecretAuth{ClientToken: s.Reveal()}, nil
	case "approle":
		id, err := c.secretID(ctx)
		if err != nil {
			return nil, err
		}
		body["role_id"], body["secret_id"] = a.RoleID, id.Reveal()
	default: // jwt, kubernetes
		s, err := secret.Read(a.JWTFile)
		if err != nil {
			return nil, fmt.Errorf("vault: jwt_file: %w", err)
		}
		body["role"], body["jwt"] = a.Role, s.Reveal()
	}
	out, err := c.bare.Logical().WriteWithContext(ctx, "auth/"+a.Mount+"/login", body)
	if err != nil {
		return nil, fmt.Errorf("vault: logging in by %s: %w", a.Method, asBusy(err))
	}
	if out == nil || out.Auth == nil || out.Auth.ClientToken == "" {
		return nil, errors.New("vault: the login was answered without a token")
	}
	return out.Auth, nil
}

// secretID reads the secret id, or unwraps it once and keeps it, because a wrapping token
// can be used only once.
func (c *Client) secretID(ctx context.Context) (secret.Secret, error) {
	if !c.unwrapped.Empty() {
		return c.unwrapped, nil
	}
	s, err := secret.Read(c.cfg.Auth.SecretIDFile)
	if err != nil {
		return s, fmt.Errorf("vault: secret_id_file: %w", err)
	}
	if c.cfg.Auth.SecretIDPath == "" {
		return s, nil
	}
	look, err := c.bare.Logical().WriteWithContext(ctx, "sys/wrapping/lookup", map[string]any{"token": s.Reveal()})
	if err != nil {
		return secret.Secret{}, fmt.Errorf("vault: the wrapping token of the secret id was already used or has expired: make a new one, and if it was used before, revoke the secret id: %w", err)
	}
	if look == nil {
		return secret.Secret{}, errors.New("vault: the wrapping token of the secret id cannot be looked up: the answer is empty")
	}
	if made, _ := look.Data["creation_path"].(string); made != c.cfg.Auth.SecretIDPath {
		return secret.Secret{}, fmt.Errorf("vault: the wrapping token was made at %q, want %q: it may have been replaced by an attacker, and was not used; make a new one", made, c.cfg.Auth.SecretIDPath)
	}
	out, err := c.bare.Logical().UnwrapWithContext(ctx, s.Reveal())
	if err != nil {
		return secret.Secret{}, fmt.Errorf("vault: unwrapping the secret id: %w", err)
	}
	var id string
	if out != nil {
		id, _ = out.Data["secret_id"].(string)
	}
	if id == "" {
		return secret.Secret{}, errors.New("vault: the wrapping token contained no secret id")
	}
	c.unwrapped = secret.New(id)
	return c.unwrapped, nil
}
