package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/awskeys"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
)

// parseAWS parses --aws.
func parseAWS(text string) (scopes.Set, error) {
	if text == "" {
		return scopes.Set{}, nil
	}
	set, err := scopes.ParseSet(text)
	if err != nil || set.Empty() {
		return scopes.Set{}, usage("--aws "+strconv.Quote(text)+" is not a scope", "write it like --aws 's3:bucket/in/**:read'")
	}
	return set, nil
}

// giveAWS serves credentials to AWS clients on the sandbox's loopback, where
// SDKs look if these variables are set (container credentials). A credential is
// requested only when a client asks.
func (c runCommand) giveAWS(serving context.Context, s ask.Sandbox, in *boxed) error {
	if in.aws.Empty() {
		return nil
	}
	l, dir, err := in.socket("aws")
	if err != nil {
		return err
	}
	in.mount("aws", dir)
	in.carry(box.AWSPort, box.Dir+"/aws/socket")
	authorization := rand.Text()
	in.spec.Env = append(in.spec.Env,
		"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:"+strconv.Itoa(box.AWSPort)+awskeys.Path, "AWS_CONTAINER_AUTHORIZATION_TOKEN="+authorization)
	var told sync.Map // requests already reported: an SDK repeats its request after a timeout
	go func() {
		_ = awskeys.Serve(serving, l, awskeys.Config{Authorization: authorization, Get: func(ctx context.Context) (client.Credential, error) {
			return s.Token(ctx, client.TokenRequest{Scope: in.aws.String(), Tool: in.tool, Reason: "ebb run --aws", Wait: true, Pending: func(p client.Pending) {
				if _, known := told.LoadOrStore(p.RequestID, true); !known {
					runReport(c).sayAsked(in.aws.String())
				}
			}})
		}})
	}()
	return nil
}
