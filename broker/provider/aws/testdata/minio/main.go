// Command miniobed is a real MinIO for integration tests, unpatched, and what makes the user that tests come as:
//
//	miniobed server ...       MinIO itself
//	miniobed user HOST:PORT   a user BED_KEY with secret BED_SECRET and the policy readwrite, made by MINIO_ROOT_USER: as ebb, tests do not come as root
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
