package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/tare-mesh/tare/internal/base/wait"
)

// startLimit is the time for one step of the start of a cluster.
const startLimit = 3 * time.Minute

// condition returns nil when it holds, and otherwise an error that names the missing thing.
type condition func(ctx context.Context) error

// await polls until the condition holds. The error contains what and the condition's last error.
func await(ctx context.Context, limit time.Duration, what string, holds condition) error {
	if err := wait.Within(ctx, limit, 200*time.Millisecond, holds); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// api is the cluster's API server, called as its administrator.
type api struct{ Layout }

// apiReady holds when the API server's readyz check passes.
func (l api) apiReady() condition {
	return func(ctx context.Context) error {
		_, err := l.get(ctx, "/readyz")
		return err
	}
}

// get requests path from the API server, as the cluster's administrator.
func (l api) get(ctx context.Context, path string) ([]byte, error) {
	client, err := l.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.Network.Server()+path, nil)
	if err != nil {
		return nil, fmt.Errorf("call the API server: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("call the API server: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("call the API server for %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("call the API server for %s: %s", path, response.Status)
	}
	return body, nil
}

func (l api) client() (*http.Client, error) {
	authority, err := os.ReadFile(l.pki() + "/ca.crt")
	if err != nil {
		return nil, fmt.Errorf("read the cluster's certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("read the cluster's certificates: ca.crt holds none")
	}
	pair, err := tls.LoadX509KeyPair(l.pki()+"/admin.crt", l.pki()+"/admin.key")
	if err != nil {
		return nil, fmt.Errorf("read the cluster's certificates: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}
