package egress

import (
	"context"

	"ebb/broker"
)

// find is a box of a task of who.
func (b *Boxes) find(ctx context.Context, who broker.Principal, taskID, id string) (*opened, error) {
	if err := b.cfg.Runners.MayBox(ctx, who, taskID); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.of[taskID][id]; o != nil {
		return o, nil
	}
	return nil, errNoBox
}

// Register says which network namespace is a box's, by its inode, and lets in who is
// there. It is said once. For boxes that are known otherwise it changes nothing.
func (b *Boxes) Register(ctx context.Context, who broker.Principal, taskID, id string, namespace uint64) (broker.Box, error) {
	o, err := b.find(ctx, who, taskID, id)
	if err != nil {
		return broker.Box{}, err
	}
	d := doorOf(o.l)
	if d == nil || o.box.Identity != broker.BoxByKernel {
		return o.view(), nil
	}
	if namespace == 0 || b.kernel.own == namespace {
		return broker.Box{}, broker.E(broker.Invalid, "network_namespace must be the inode of the box's own network namespace. Who shares ebb's is in no box.", nil)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if said, is := d.registered(); is {
		if said != namespace {
			return broker.Box{}, broker.E(broker.Conflict, "The box is registered with another network namespace. Open another box.", nil)
		}
		return o.view(), nil
	}
	if err := b.cfg.Runners.BoxRegistered(ctx, who, o.box, namespace); err != nil {
		return broker.Box{}, err
	}
	d.register(namespace)
	return o.view(), nil
}

// Shut closes a box: everything of it is cut when Shut returns.
func (b *Boxes) Shut(ctx context.Context, who broker.Principal, taskID, id string) (broker.Box, error) {
	o, err := b.find(ctx, who, taskID, id)
	if err != nil {
		return broker.Box{}, err
	}
	o.cut(ErrBox)
	b.forget(o)
	x := o.view()
	x.State = broker.BoxClosed
	return x, nil
}

func (o *opened) view() broker.Box {
	x := o.box
	if o.l.open() {
		x.State = broker.BoxOpen
	}
	return x
}
