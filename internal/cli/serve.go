package cli

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/serve"
)

type serveOptions struct {
	listen, token, cert, key string
	open                     bool // without a token
}

func newServeCommand(c *CommandLine) *cobra.Command {
	o := serveOptions{listen: "127.0.0.1:7080"}
	cmd := &cobra.Command{
		Use:   "serve [DIR…]",
		Short: "Show runs in a browser",
		Long: `serve lists the results directories below each DIR (default runs), with the result
and the history of each. It shows the page of a run, two runs compared, and a run
under way. It writes nothing there, and follows no links.

It listens on this machine only, and other users of it need the token in the printed
link. Other addresses need --token, --tls-cert and --tls-key.`,
		Example: `  tare serve
  tare serve runs results/nightly --listen 127.0.0.1:8000
  tare serve --listen 0.0.0.0:8443 --token @token.txt --tls-cert tls.crt --tls-key tls.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{result.RunsDir}
			}
			return c.serve(cmd.Context(), args, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", o.listen, "`address` and port; port 0 takes a free one")
	f.StringVar(&o.token, "token", "", "token that requests need: `@FILE` with it in the first line, @- for standard input, or the token itself (default: random)")
	f.BoolVar(&o.open, "no-token", false, "show the runs to every user of this machine")
	f.StringVar(&o.cert, "tls-cert", "", "certificate `file` (PEM)")
	f.StringVar(&o.key, "tls-key", "", "private key `file` (PEM)")
	return cmd
}

// A token has bytes within these limits: a shorter one is guessed.
const shortestToken, maxToken = 16, 4096

func (c *CommandLine) serve(ctx context.Context, dirs []string, o serveOptions) error {
	token, err := o.readToken(c.In)
	if err != nil {
		return err
	}
	secure, leaf, err := o.certificate()
	if err != nil {
		return err
	}
	address, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return hint.Usage(fmt.Errorf("--listen: %w", err), "write it as --listen 127.0.0.1:7080")
	}
	if !address.IP.IsLoopback() && (o.token == "" || secure == nil) {
		return hint.Usage(fmt.Errorf("--listen %s: other machines could read every result", o.listen), "add --token, --tls-cert and --tls-key, or listen on 127.0.0.1")
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	defer listener.Close()
	server, err := serve.New(serve.Config{
		Dirs: dirs, Listen: listener.Addr(), Certificate: leaf, Token: token,
		Page: func(w io.Writer, dir string) error {
			return writeReport(w, dir, reportOptions{format: pageFormat().Name})
		},
		Compare: func(w io.Writer, base, next string) error {
			across, err := compareDirs([]string{base}, next, compareOptions{anyway: true})
			if err != nil {
				return err
			}
			return page.WriteAcross(w, across)
		},
	})
	if err != nil {
		return err
	}
	defer server.Close()
	scheme := "http"
	handler := server.HTTP()
	if secure != nil {
		scheme, handler.TLSConfig = "https", secure
	}
	link := fmt.Sprintf("%s://%s/", scheme, listener.Addr())
	if o.token == "" && !o.open {
		link += "?token=" + token
	}
	c.Notef("serving %s on %s until Ctrl-C", strings.Join(dirs, ", "), link)
	return httpserver.Serve(ctx, listener, handler)
}

// readToken reads the token from its file, standard input or the flag. Without any it makes one.
func (o serveOptions) readToken(in io.Reader) (string, error) {
	token := o.token
	switch {
	case o.open && token != "":
		return "", hint.Usage(errors.New("--token and --no-token exclude each other"), "")
	case o.open:
		return "", nil
	case token == "":
		return rand.Text(), nil
	}
	if file, ok := strings.CutPrefix(token, "@"); ok {
		read := func() ([]byte, error) { return regular.ReadInput(file, maxToken) }
		if file == "-" {
			read = func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxToken)) }
		}
		text, err := read()
		if err != nil {
			return "", hint.InvalidFile(fmt.Errorf("--token: %w", err))
		}
		token, _, _ = strings.Cut(string(text), "\n")
		token = strings.TrimSpace(token)
	}
	if len(token) < shortestToken {
		return "", hint.Usage(fmt.Errorf("--token has %d characters", len(token)), fmt.Sprintf("take at least %d, such as from: head -c 24 /dev/urandom | base64", shortestToken))
	}
	return token, nil
}

// certificate reads the files of TLS. Nil means that none were given.
func (o serveOptions) certificate() (*tls.Config, *x509.Certificate, error) {
	if o.cert == "" && o.key == "" {
		return nil, nil, nil
	}
	if o.cert == "" || o.key == "" {
		return nil, nil, hint.Usage(errors.New("--tls-cert and --tls-key need each other"), "")
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, nil, hint.InvalidFile(fmt.Errorf("--tls-cert %s: %w", o.cert, err))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, pair.Leaf, nil
}
