package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ebb-broker/ebb/broker/provider"
)

// of returns the Secret of a target. Without a handle, which Mint saves before it makes
// anything, the name follows from the lease and the namespace from its scope.
func (d *Driver) of(t provider.Target) (name string, h handle, err error) {
	if name = provider.Name(t.Instance, t.LeaseID); name == "" {
		return "", h, errors.New("kubernetes: the target is not a lease of this installation")
	}
	if t.Handle.Empty() {
		acc, err := d.cfg.Grants.One(t.Scopes)
		if err != nil {
			return "", h, fmt.Errorf("kubernetes: the namespace of Secret %s is unknown: restore its grant in the configuration, or delete the Secret manually and confirm: %w", name, err)
		}
		return name, handle{Namespace: acc.Namespace}, nil
	}
	err = json.Unmarshal([]byte(t.Handle.Reveal()), &h)
	if err != nil || !labelForm.MatchString(h.Namespace) || h.UID != "" && !uidForm.MatchString(h.UID) {
		return "", h, errors.New("kubernetes: the handle is damaged")
	}
	return name, h, nil
}

// Revoke deletes the Secret that the token is bound to.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	name, h, err := d.of(t)
	if err != nil {
		return err
	}
	return d.remove(ctx, name, h)
}

func (d *Driver) remove(ctx context.Context, name string, h handle) error {
	type preconditions struct {
		UID string `json:"uid"`
	}
	type deleteOptions struct {
		APIVersion        string         `json:"apiVersion"`
		Kind              string         `json:"kind"`
		PropagationPolicy string         `json:"propagationPolicy"`
		Preconditions     *preconditions `json:"preconditions,omitempty"`
	}
	// Foreground would keep the Secret, and so the token, until its dependents are deleted.
	o := deleteOptions{APIVersion: "v1", Kind: "DeleteOptions", PropagationPolicy: "Background"}
	if h.UID != "" {
		o.Preconditions = &preconditions{h.UID}
	}
	var done struct {
		Kind   string `json:"kind"`
		Status any    `json:"status"`
	}
	err := d.api.call(ctx, request{method: http.MethodDelete, path: secretsPath(h.Namespace) + "/" + name, body: o}, &done)
	switch {
	case reason(err) == "NotFound":
		return nil
	case reason(err) == "Conflict":
		// Another Secret has the name, so the token's Secret is gone. The server is asked
		// again, because it also returns Conflict for other reasons.
		alive, perr := d.exists(ctx, name, h)
		if perr == nil && !alive {
			return nil
		}
		return fmt.Errorf("kubernetes: deleting the Secret of a lease: %w", errors.Join(err, perr))
	case err != nil:
		return fmt.Errorf("kubernetes: deleting the Secret of a lease: %w", err)
	case done.Kind == "Secret":
		return errors.New("kubernetes: a finalizer prevents the deletion of the Secret of a lease: the token is valid until the finalizer is removed")
	case done.Kind != "Status" || done.Status != "Success":
		return errors.New("kubernetes: deleting the Secret of a lease: the response is for another request")
	}
	return nil
}

// drop deletes the Secret of a failed Mint, and reports whether it is gone.
func (d *Driver) drop(ctx context.Context, name string, h handle) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	return d.remove(ctx, name, h) == nil
}

// errEarly is returned by a probe if the Secret is deleted, but an API server may still have the
// token in its cache. The state is then unknown.
var errEarly = fmt.Errorf("kubernetes: the Secret is gone, and API servers may still remember the token: %w", errors.ErrUnsupported)

// Probe implements provider.Prober. It asks the server for the Secret. A missing Secret
// proves the token invalid only after every API server's cache has expired; before that the
// error wraps errors.ErrUnsupported.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	name, h, err := d.of(t)
	if err != nil {
		return false, err
	}
	if alive, err = d.exists(ctx, name, h); alive || err != nil {
		return alive, err
	}
	if t.AcceptedAt.IsZero() || t.Now.Before(t.AcceptedAt.Add(bound)) {
		return true, errEarly
	}
	return false, nil
}

// exists reports whether a Secret exists to which tokens of the lease can be bound.
func (d *Driver) exists(ctx context.Context, name string, h handle) (bool, error) {
	var found struct {
		Kind     string `json:"kind"`
		Metadata meta   `json:"metadata"`
	}
	err := d.api.call(ctx, request{method: http.MethodGet, path: secretsPath(h.Namespace) + "/" + name}, &found)
	if reason(err) == "NotFound" {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kubernetes: looking for the Secret of a lease: %w", err)
	}
	if m := found.Metadata; found.Kind != "Secret" || m.Name != name || m.UID == "" {
		return false, errors.New("kubernetes: looking for the Secret of a lease: the response is for another request")
	}
	return h.UID == "" || h.UID == found.Metadata.UID, nil
}

const (
	pageSize = 500
	maxPages = 1000 // half a million Secrets; stops at a server whose list never ends
)

// List implements provider.Lister. It lists the Secrets of this instance in every configured
// namespace. A namespace that cannot be listed does not prevent the listing of the others.
func (d *Driver) List(ctx context.Context, instance string, yield func(provider.Target) error) error {
	var errs []error
	for _, ns := range d.cfg.namespaces() {
		err := d.list(ctx, ns, url.Values{"labelSelector": {labelManaged + "=ebb," + labelInstance + "=" + instance}}, pageSize, func(m meta) error {
			lease, ours := provider.LeaseOf(instance, m.Name)
			if !ours {
				return nil
			}
			h, err := handle{Namespace: ns, UID: m.UID}.secret()
			if err != nil {
				return err
			}
			if err := yield(provider.Target{LeaseID: lease, Instance: instance, Handle: h}); err != nil {
				return &stopped{err}
			}
			return nil
		})
		if s, stop := errors.AsType[*stopped](err); stop {
			return s.error
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("kubernetes: listing Secrets in %s: %w", ns, err))
		}
	}
	return errors.Join(errs...)
}

// stopped is the error with which the caller of List ended it.
type stopped struct{ error }

// list reads the names and labels of Secrets page by page.
func (d *Driver) list(ctx context.Context, namespace string, query url.Values, limit int, each func(meta) error) error {
	query.Set("limit", strconv.Itoa(limit))
	for range maxPages {
		var page struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []struct {
				Metadata meta `json:"metadata"`
			} `json:"items"`
		}
		if err := d.api.call(ctx, request{method: http.MethodGet, path: secretsPath(namespace), query: query, accept: metadataOnly}, &page); err != nil {
			return err
		}
		if page.Kind != "PartialObjectMetadataList" {
			return errors.New("the response is for another request")
		}
		for _, it := range page.Items {
			if err := each(it.Metadata); err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
	return errors.New("the list has more than the maximum number of pages")
}
