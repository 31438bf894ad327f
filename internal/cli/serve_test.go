package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
)

// Other machines see nothing without a token and TLS.
func TestServeRefusesOtherMachines(t *testing.T) {
	runs := t.TempDir()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
