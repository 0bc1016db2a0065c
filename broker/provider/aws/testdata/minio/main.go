// Command miniobed runs a real, unpatched MinIO for integration tests, and makes the user
// that tests use:
//
// miniobed server ...       MinIO itself
// miniobed user HOST:PORT   makes a user BED_KEY with secret BED_SECRET and the policy readwrite, as MINIO_ROOT_USER. Like ebb, tests do not use root.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/minio/madmin-go/v3"
	minio "github.com/minio/minio/cmd"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "user" {
		minio.Main(os.Args)
		return
	}
	if err := addUser(os.Args[2], os.Getenv("BED_KEY"), os.Getenv("BED_SECRET")); err != nil {
		fmt.Fprintln(os.Stderr, "miniobed:", err)
		os.Exit(1)
	}
}

func addUser(addr, key, secret string) error {
	root, err := madmin.New(addr, os.Getenv("MINIO_ROOT_USER"), os.Getenv("MINIO_ROOT_PASSWORD"), false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := root.AddUser(ctx, key, secret); err != nil {
		return err
	}
	_, err = root.AttachPolicy(ctx, madmin.PolicyAssociationReq{Policies: []string{"readwrite"}, User: key})
	return err
}
