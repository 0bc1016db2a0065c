package unixpeer

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/content/v1"
	"github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/services/snapshots/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// maxBlobs bounds the manifests and configurations of one image that are asked about.
const maxBlobs = 64

// imageDigest is the digest of what the container's image names, "" when that cannot be
// told. A name can have been moved since the container was made: what it names now
// counts only when the container's file system stands on its layers.
func imageDigest(ctx context.Context, conn *grpc.ClientConn, box *containers.Container) (string, error) {
	name, key := box.GetImage(), box.GetSnapshotKey()
	if name == "" || key == "" {
		return "", nil // made from a directory
	}
	img, err := images.NewImagesClient(conn).Get(ctx, &images.GetImageRequest{Name: name})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("containerd does not answer for the image: %w", err)
	}
	digest := img.GetImage().GetTarget().GetDigest()
	if img.GetImage().GetName() != name || !digestForm.MatchString(digest) {
		return "", errInspect
	}
	snap, err := snapshots.NewSnapshotsClient(conn).Stat(ctx, &snapshots.StatSnapshotRequest{Snapshotter: box.GetSnapshotter(), Key: key})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("containerd does not answer for the snapshot: %w", err)
	}
	if snap.GetInfo().GetName() != key {
		return "", errInspect
	}
	ok, err := unpackedTo(ctx, content.NewContentClient(conn), digest, "containerd.io/gc.ref.snapshot."+box.GetSnapshotter(), snap.GetInfo().GetParent())
	if !ok || err != nil {
		return "", err
	}
	return digest, nil
}

// unpackedTo reports whether an image, or one of an index of them, was unpacked to a
// snapshot. containerd writes that to the image's configuration, and to each blob what
// it leads to, as labels that its garbage collector needs.
func unpackedTo(ctx context.Context, client content.ContentClient, digest, label, snapshot string) (bool, error) {
	if snapshot == "" {
		return false, nil
	}
	todo := []string{digest}
	for i := 0; i < len(todo) && i < maxBlobs; i++ {
		got, err := client.Info(ctx, &content.InfoRequest{Digest: todo[i]})
		if status.Code(err) == codes.NotFound {
			continue // of another platform
		}
		if err != nil {
			return false, fmt.Errorf("containerd does not answer for the image's content: %w", err)
		}
		if got.GetInfo().GetDigest() != todo[i] {
			return false, errInspect
		}
		labels := got.GetInfo().GetLabels()
		if labels[label] == snapshot {
			return true, nil
		}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			to, is := strings.CutPrefix(name, "containerd.io/gc.ref.content.")
			if is && (to == "config" || strings.HasPrefix(to, "m.")) && digestForm.MatchString(labels[name]) && !slices.Contains(todo, labels[name]) {
				todo = append(todo, labels[name])
			}
		}
	}
	return false, nil
}
