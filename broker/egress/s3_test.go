package egress_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

const allOfIn = "s3:BUCKET/in/**:read s3:BUCKET/in/**:write s3:BUCKET/in/**:list s3:BUCKET/in/**:delete"

// TestS3: an S3 client in a sandbox signs with an invented key. The request at the gateway is signed
// with the session, for every object name and payload encoding.
func TestS3(t *testing.T) {
	t.Parallel()
	b := newS3Bed(t)
	x := b.s3Box(t)
	c := b.tool(t, x, allOfIn)
	ctx, bucket := t.Context(), &b.bucket
	for _, key := range []string{"in/plain.csv", "in/two words.csv", "in/größe-日本.csv", "in/a+b=c&d,e.csv", "in/(1)!*'~@$.csv", "in/deep/er/x"} {
		if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader("of " + key)}); err != nil {
			t.Errorf("put %q: %v", key, err)
			continue
		}
		if got := b.holds(t, key); got != "of "+key {
			t.Errorf("%q holds %q", key, got)
		}
		got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &key})
		if err != nil {
			t.Errorf("get %q: %v", key, err)
			continue
		}
		if body, err := io.ReadAll(got.Body); err != nil || string(body) != "of "+key {
			t.Errorf("get %q: %q, %v", key, body, err)
		}
		_ = got.Body.Close()
	}
	list, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: sdk.String("in/"), MaxKeys: sdk.Int32(4)})
	if err != nil || len(list.Contents) != 4 {
		t.Fatalf("list: %v, %v", list, err)
	}
	if rest, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: sdk.String("in/"), ContinuationToken: list.NextContinuationToken}); err != nil || len(rest.Contents) != 2 {
		t.Errorf("the rest of the list: %v, %v", rest, err)
	}
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: sdk.String("in/two words.csv")}); err != nil {
		t.Error(err)
	}
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: sdk.String("out/x"), Body: strings.NewReader("x")}); err == nil {
		t.Error("a key outside of the scope was written")
	}
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: sdk.String("in//x"), Body: strings.NewReader("x")}); err == nil {
		t.Error("a key with an empty segment was written")
	}
}

// Payloads in chunks with a checksum after them, as clients send streams, and multipart uploads.
func TestS3Uploads(t *testing.T) {
	t.Parallel()
	b := newS3Bed(t)
	x := b.s3Box(t)
	ctx, bucket := t.Context(), &b.bucket
	c := b.tool(t, x, allOfIn)
	big := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	stream := func(c *s3.Client, key string, sum types.ChecksumAlgorithm) error {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: io.MultiReader(bytes.NewReader(big)), ContentLength: sdk.Int64(int64(len(big))), ChecksumAlgorithm: sum})
		if got := ""; err == nil {
			if got = b.holds(t, key); got != string(big) {
				t.Errorf("%s is %d bytes of %d", key, len(got), len(big))
			}
		}
		return err
	}
	if err := stream(c, "in/unsigned", ""); err != nil {
		t.Errorf("a stream: %v", err)
	}
	// Older gateways accept the signature of this form, and then hash its frames as if they were
	// the payload. That happens with ebb's own key, too.
	const unknown = "XAmzContentSHA256Mismatch"
	if err, direct := stream(c, "in/chunks", types.ChecksumAlgorithmCrc32), stream(b.direct, "in/direct", types.ChecksumAlgorithmCrc32); (err == nil) != (direct == nil) || err != nil && (!strings.Contains(err.Error(), unknown) || !strings.Contains(direct.Error(), unknown)) {
		t.Errorf("in chunks: %v; without egress: %v", err, direct)
	} else if b.chunked.Load() != 2 {
		t.Errorf("%d streams came in chunks", b.chunked.Load())
	}
	key := sdk.String("in/parts")
	up, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	var parts []types.CompletedPart
	for n, body := range [][]byte{big, []byte("the end")} {
		p, err := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: up.UploadId, PartNumber: sdk.Int32(int32(n + 1)), Body: bytes.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, types.CompletedPart{ETag: p.ETag, PartNumber: sdk.Int32(int32(n + 1))})
	}
	if _, err := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: key, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}}); err != nil {
		t.Fatal(err)
	}
	if got := b.holds(t, *key); got != string(big)+"the end" {
		t.Errorf("the parts are %d bytes", len(got))
	}
	if up, err = c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key}); err == nil {
		_, err = c.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: bucket, Key: key, UploadId: up.UploadId})
	}
	if err != nil {
		t.Errorf("an upload that is given up: %v", err)
	}
}

// E71 and E95: a URL that a client has presigned shows the placeholder, and a payload with signed
// chunks is not signed with the key of the session. Both are refused.
func TestS3Refuses(t *testing.T) {
	t.Parallel()
	b := newS3Bed(t)
	x := b.s3Box(t)
	if _, err := b.own.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: sdk.String("in/a"), Body: strings.NewReader("secret of the bucket")}); err != nil {
		t.Fatal(err)
	}
	p := x.placeholder(t, strings.ReplaceAll(allOfIn, "BUCKET", b.bucket))
	cfg := sdk.Config{Region: "us-east-1", BaseEndpoint: &b.endpoint, Credentials: credentials.NewStaticCredentialsProvider(p, "none", "")}
	signed, err := s3.NewPresignClient(s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: &b.bucket, Key: sdk.String("in/a")})
	if err != nil {
		t.Fatal(err)
	}
	c := x.client(t, false)
	claim := "AWS4-HMAC-SHA256 Credential=" + p + "/20261122/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
	at := b.endpoint + "/" + b.bucket + "/in/a"
	if res, body := send(t, c, "GET", at, "", "Authorization", claim); res.StatusCode != http.StatusOK || body != "secret of the bucket" {
		t.Fatalf("their twin: %d %s", res.StatusCode, body)
	}
	for what, ask := range map[string]func() (*http.Response, string){
		"presigned": func() (*http.Response, string) { return send(t, c, signed.Method, signed.URL, "") },
		"both": func() (*http.Response, string) {
			return send(t, c, signed.Method, signed.URL, "", "Authorization", claim)
		},
		"signed chunks": func() (*http.Response, string) {
			return send(t, c, "PUT", at, "0;chunk-signature=00\r\n\r\n", "Authorization", claim, "X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
		},
		"a copy": func() (*http.Response, string) {
			return send(t, c, "PUT", at, "", "Authorization", claim, "X-Amz-Copy-Source", "other/key")
		},
	} {
		if res, body := ask(); res.StatusCode/100 != 4 || !strings.Contains(body, "egress_denied") {
			t.Errorf("%s: %d %s", what, res.StatusCode, body)
		}
	}
	for name, tt := range map[string]struct{ url, claim, next string }{
		"another key":              {b.endpoint + "/" + b.bucket + "/out/a", claim, "The scope s3:" + b.bucket + "/out/a:read covers it. "},
		"signed for another place": {at, strings.Replace(claim, "us-east-1", "eu-west-1", 1), "No scope that the task may ask for covers it. "},
	} {
		if _, body := send(t, c, "GET", tt.url, "", "Authorization", tt.claim); !strings.Contains(refused(t, body).Detail, tt.next) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// E83: an injected value of an S3 request is marked in the response, for example in errors of S3.
// After the end of the task, the gateway refuses its session.
func TestS3Redacts(t *testing.T) {
	t.Parallel()
	b := newS3Bed(t)
	b.bucket = "echo"
	x := b.s3Box(t)
	p := x.placeholder(t, "s3:echo/in/**:read")
	c := x.client(t, false)
	claim := "AWS4-HMAC-SHA256 Credential=" + p + "/20261122/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
	res, body := send(t, c, "GET", b.endpoint+"/echo/in/a", "", "Authorization", claim)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "X-Amz-Security-Token: ") || !strings.Contains(body, "SignedHeaders=") {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	for _, line := range strings.Split(body, "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		if name == "X-Amz-Security-Token" && !strings.HasPrefix(value, "[") {
			t.Errorf("the session's token came back: %s", line)
		}
	}
	done, err := b.Broker.CompleteTask(context.WithoutCancel(t.Context()), b.Principals[brokertest.Runner], x.s.Task.ID, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := try(t, c, "GET", b.endpoint+"/echo/in/a", "", "Authorization", claim); err == nil {
		t.Errorf("after the end of its task it was answered: %+v", done)
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
