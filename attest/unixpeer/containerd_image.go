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

// maxBlobs is the maximum number of manifests and configurations of one image that are
// requested.
const maxBlobs = 64

// imageDigest returns the digest of the image that the container was made from, "" when
// it is unknown. The image name may point to another image since the container was
// made. So the current digest is returned only when the container's snapshot is based
// on the layers of that image.
func imageDigest(ctx context.Context, conn *grpc.ClientConn, c *containers.Container) (string, error) {
	name, key := c.GetImage(), c.GetSnapshotKey()
	if name == "" || key == "" {
		return "", nil // made from a directory
	}
	img, err := images.NewImagesClient(conn).Get(ctx, &images.GetImageRequest{Name: name})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("containerd did not return the image: %w", err)
	}
	digest := img.GetImage().GetTarget().GetDigest()
	if img.GetImage().GetName() != name || !digestForm.MatchString(digest) {
		return "", errInspect
	}
	snap, err := snapshots.NewSnapshotsClient(conn).Stat(ctx, &snapshots.StatSnapshotRequest{Snapshotter: c.GetSnapshotter(), Key: key})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("containerd did not return the snapshot: %w", err)
	}
	if snap.GetInfo().GetName() != key {
		return "", errInspect
	}
	ok, err := unpackedTo(ctx, content.NewContentClient(conn), digest, "containerd.io/gc.ref.snapshot."+c.GetSnapshotter(), snap.GetInfo().GetParent())
	if !ok || err != nil {
		return "", err
	}
	return digest, nil
}

// unpackedTo reports whether an image, or one image of an index, was unpacked to a
// snapshot. containerd records the snapshot as a label of the image's configuration,
// and the blobs that each blob refers to as labels too, for its garbage collector.
func unpackedTo(ctx context.Context, client content.ContentClient, digest, label, snapshot string) (bool, error) {
	if snapshot == "" {
		return false, nil
	}
	todo := []string{digest}
	for i := 0; i < len(todo) && i < maxBlobs; i++ {
		got, err := client.Info(ctx, &content.InfoRequest{Digest: todo[i]})
		if status.Code(err) == codes.NotFound {
			continue // an image for another platform, which was not downloaded
		}
		if err != nil {
			return false, fmt.Errorf("containerd did not return the content of the image: %w", err)
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
