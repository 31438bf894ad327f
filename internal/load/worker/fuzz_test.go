package worker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// FuzzCommand: an accepted command has a path, and an ID that names a directory.
func FuzzCommand(f *testing.F) {
	f.Add([]byte(`{"id":"load-1","path":"/tare-agent","args":["load"],"stdin":"e30="}`))
	f.Add([]byte(`{"id":"../up","path":"/bin/true"}`))
	f.Add([]byte(`{"id":"a","path":""}`))
	f.Add([]byte(`{"id":"a","path":"x","unknown":1}`))
	f.Add([]byte(`{"id":"a","path":"x"}{"id":"b","path":"y"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var c Command
		if json.Unmarshal(body, &c) == nil && c.check() == nil && (c.Path == "" || c.ID == "" || c.ID == "." || c.ID == ".." || filepath.Base(c.ID) != c.ID || len(c.ID) > 64) {
			t.Errorf("accepted: %+v", c)
		}
	})
}

const fuzzToken = "0123456789abcdef0123"

// FuzzServer: without the token nothing is answered but a refusal, and no request
// starts a command or makes the server fail.
func FuzzServer(f *testing.F) {
	root := f.TempDir()
	f.Add("GET", "/status?run=x", "Bearer "+fuzzToken, []byte(nil))
	f.Add("GET", "/stdout?run=x&from=-1", "bearer "+fuzzToken, []byte(nil))
	f.Add("POST", "/stop?run=x", "Bearer "+fuzzToken, []byte(`{"grace":-1}`))
	f.Add("GET", "/files?run=../..", "Bearer "+fuzzToken, []byte(nil))
	f.Add("GET", "/clock", "Bearer "+fuzzToken, []byte(nil))
	f.Add("POST", "/stop", "Basic "+fuzzToken, []byte(nil))
	f.Add("POST", "//run", "Bearer", []byte("{}"))
	f.Fuzz(func(t *testing.T, method, target, authorization string, body []byte) {
		s := must.Get(NewServer(fuzzToken, root))(t)
		r, err := http.NewRequest(method, "http://worker/"+strings.TrimPrefix(target, "/"), bytes.NewReader(body))
		if err != nil {
			return
		}
		if method == http.MethodPost && strings.Contains(r.URL.Path, "run") {
			return // it would start what the body names: FuzzCommand has these
		}
		r.Header = http.Header{"Authorization": {authorization}}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		permitted := strings.TrimSpace(strings.TrimPrefix(strings.ToLower(authorization), "bearer ")) == fuzzToken
		if !permitted && w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s with %q: status %d", method, target, authorization, w.Code)
		}
		if len(s.runs) > 0 {
			t.Error("a command was started")
		}
	})
}

// onePipe is a connection to a server that answers the first request with text and
// closes.
func onePipe(text []byte) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			r, err := http.ReadRequest(bufio.NewReader(server))
			if err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = server.Write(text)
			}
		}()
		return client, nil
	}
}

// FuzzClient: whatever a worker answers, a call ends, and an accepted status is one.
func FuzzClient(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n" + `{"ended":true,"code":0,"stdout":5,"stderr":0}`))
	f.Add([]byte("HTTP/1.1 401 Unauthorized\r\nContent-Length: 17\r\n\r\n" + `{"error":"token"}`))
	f.Add([]byte("HTTP/1.1 502 Bad Gateway\r\n\r\n<html>"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := NewClient(onePipe(text), fuzzToken)
		c.RetryTimeout = time.Nanosecond
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var s Status
		err := c.call(ctx, http.MethodGet, "/status?run=x", nil, &s)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: no end", text)
		}
		if out := (&writer{to: io.Discard}); err == nil {
			_ = (&Run{client: c, id: "x"}).copyOnce(ctx, Stdout, out)
		}
	})
}

// FuzzFiles: only clean names below the directory are kept, and few.
func FuzzFiles(f *testing.F) {
	archive := func(names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			must.OK(f, errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 2}), func() error { _, err := w.Write([]byte("ok")); return err }()))
		}
		must.OK(f, w.Close())
		return b.Bytes()
	}
	f.Add(archive("latency.hdr"))
	f.Add(archive("a/b", "../up", "/etc/passwd"))
	f.Add(archive("a")[:700])
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := 0
		_ = readFiles(bytes.NewReader(b), func(name string, content io.Reader) error {
			if kept++; kept > maxFiles || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(name, "\\\x00") {
				t.Errorf("file %d: %q", kept, name)
			}
			_, err := io.Copy(io.Discard, content)
			return err
		})
	})
}
