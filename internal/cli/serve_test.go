package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
)

// Other machines see nothing without a token and TLS.
func TestServeRefusesOtherMachines(t *testing.T) {
	runs := t.TempDir()
	token := must.File(t, t.TempDir(), "token", "0123456789abcdef0123\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "other machines could read every result"},
		{[]string{"--listen", ":0"}, "other machines could read every result"},
		{[]string{"--listen", "[::]:0", "--token", "@" + token}, "other machines could read every result"},
		{[]string{"--listen", "192.0.2.1:0", "--token", "@" + token}, "other machines could read every result"},
		{[]string{"--token", "short"}, "--token has 5 characters"},
		{[]string{"--tls-cert", "tls.crt"}, "need each other"},
		{[]string{"--listen", "nonsense"}, "--listen"},
	} {
		var out, stderr bytes.Buffer
		code := New(console.Console{Out: &out, Err: &stderr}, nil).Run(t.Context(), append([]string{"serve", runs}, c.args...))
		if code != console.BadUsage || !strings.Contains(stderr.String(), c.want) || !strings.Contains(stderr.String(), "hint: ") && c.want != "need each other" {
			t.Errorf("%v: exit code %d: %s", c.args, code, stderr.String())
		}
	}
}

// Other machines need TLS, the token and the name of the certificate.
func TestServeWithTLS(t *testing.T) {
	dir := t.TempDir()
	known := httptest.NewTLSServer(nil) // has a certificate of 127.0.0.1, and a client that trusts it
	known.Close()
	pair := known.TLS.Certificates[0]
	private := must.Get(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
	const secret = "0123456789abcdef0123"
	cert, key, token := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "token")
	must.OK(t, errors.Join(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600), os.WriteFile(token, []byte(secret+"\n"), 0o600)))
	t.Setenv("XDG_CACHE_HOME", dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stderr, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- New(console.Console{Out: io.Discard, Err: writer}, nil).Run(ctx, []string{"serve", t.TempDir(), "--listen", "0.0.0.0:0", "--token", "@" + token, "--tls-cert", cert, "--tls-key", key})
		_ = writer.Close()
	}()
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	m := regexp.MustCompile(` https://\S+:(\d+)/ `).FindStringSubmatch(line)
	if err != nil || m == nil || strings.Contains(line, secret) {
		t.Fatalf("%q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	for _, c := range []struct {
		scheme, host, token string
		want                int
	}{
		{"https", "127.0.0.1:" + m[1], secret, http.StatusOK},
		{"https", "127.0.0.1:" + m[1], "", http.StatusUnauthorized},
		{"https", "127.0.0.1:" + m[1], secret[1:], http.StatusUnauthorized},
		{"https", "other.example:" + m[1], secret, http.StatusMisdirectedRequest},
		{"http", "127.0.0.1:" + m[1], secret, http.StatusBadRequest},
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, c.scheme+"://127.0.0.1:"+m[1]+"/", nil))(t)
		r.Host = c.host
		r.Header.Set("Authorization", "Bearer "+c.token)
		answer := must.Get(known.Client().Do(r))(t)
		_ = answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%+v: %d", c, answer.StatusCode)
		}
	}
	stop()
	if code := <-ended; code != console.Interrupted && code != console.Done {
		t.Errorf("exit code %d", code)
	}
}
