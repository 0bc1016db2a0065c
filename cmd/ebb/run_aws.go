package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"

	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/awskeys"
	"ebb/cmd/ebb/internal/box"
	"ebb/scopes"
	"ebb/web/client"
)

// parseAWS reads what AWS's clients in the box are given.
func parseAWS(text string) (scopes.Set, error) {
	if text == "" {
		return scopes.Set{}, nil
	}
	set, err := scopes.ParseSet(text)
	if err != nil || set.Empty() {
		return scopes.Set{}, usage("--aws "+strconv.Quote(text)+" is no scope", "write it like --aws 's3:bucket/in/**:read'")
	}
	return set, nil
}

// giveAWS has AWS's clients in the box find credentials at its loopback, where their SDKs look
// when these variables are set (container credentials). Nothing is asked for before they ask.
func (c *cli) giveAWS(serving context.Context, s ask.Sandbox, in *boxed) error {
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
	var told sync.Map // requests that people know of: an SDK that loses patience asks again
	go func() {
		_ = awskeys.Serve(serving, l, awskeys.Config{Authorization: authorization, Get: func(ctx context.Context) (client.Credential, error) {
			return s.Token(ctx, client.TokenRequest{Scope: in.aws, Tool: in.tool, Reason: "ebb run --aws", Wait: true, Pending: func(p client.Pending) {
				if _, known := told.LoadOrStore(p.RequestID, true); !known {
					c.sayAsked(in.aws)
				}
			}})
		}})
	}()
	return nil
}
