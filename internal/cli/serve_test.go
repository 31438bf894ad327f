package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
)

// Other machines see nothing.
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
		{[]string{"--listen", "nonsense"}, "--listen"},
	} {
		var out, stderr bytes.Buffer
		code := New(console.Console{Out: &out, Err: &stderr}, nil).Run(t.Context(), append([]string{"serve", runs}, c.args...))
		if code != console.BadUsage || !strings.Contains(stderr.String(), c.want) || !strings.Contains(stderr.String(), "hint: ") {
			t.Errorf("%v: exit code %d: %s", c.args, code, stderr.String())
		}
	}
}

// Requests need the token and the name of this machine.
func TestServeWithToken(t *testing.T) {
	const secret = "0123456789abcdef0123"
	token := must.File(t, t.TempDir(), "token", secret+"\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stderr, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- New(console.Console{Out: io.Discard, Err: writer}, nil).Run(ctx, []string{"serve", t.TempDir(), "--listen", "127.0.0.1:0", "--token", "@" + token})
		_ = writer.Close()
	}()
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	m := regexp.MustCompile(` http://\S+:(\d+)/ `).FindStringSubmatch(line)
	if err != nil || m == nil || strings.Contains(line, secret) {
		t.Fatalf("%q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	for _, c := range []struct {
		host, token string
		want        int
	}{
		{"127.0.0.1:" + m[1], secret, http.StatusOK},
		{"127.0.0.1:" + m[1], "", http.StatusUnauthorized},
		{"127.0.0.1:" + m[1], secret[1:], http.StatusUnauthorized},
		{"other.example:" + m[1], secret, http.StatusMisdirectedRequest},
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+m[1]+"/", nil))(t)
		r.Host = c.host
		r.Header.Set("Authorization", "Bearer "+c.token)
		answer := must.Get(http.DefaultClient.Do(r))(t)
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
