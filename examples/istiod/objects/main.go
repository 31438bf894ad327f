// Command istiod-objects writes background services to a Kubernetes API server of this machine: a Service and an EndpointSlice each, whose
// endpoints no pod has. istiod reads them there as it reads others.
//
//	go build -o bin/istiod-objects ./examples/istiod/objects
//	tare run examples/istiod/churn.yaml --mesh examples/istiod/mesh.yaml
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/service"
)

// writer writes to an API server on this machine. It answers GET /ready when the API server is ready, PUT /background with the number of
// services, and PUT /background/change with the number of a change.
type writer struct {
	*httpserver.TokenServer
	server, bearer string
	client         *http.Client
	services       atomic.Int64 // that it has written
}

const (
	atOnce       = 16 // requests
	maxBody      = 64 // bytes of a number
	readyTimeout = time.Minute
)

// newWriter returns a writer to an API server with an HTTPS URL. Its certificate is not verified, because it makes one at its start.
func newWriter(token, server, bearer string) (*writer, error) {
	s, err := httpserver.NewTokenServer(token)
	if err != nil {
		return nil, err
	}
	over := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: atOnce, ForceAttemptHTTP2: true}
	w := &writer{TokenServer: s, server: server, bearer: bearer, client: &http.Client{Transport: over}}
	w.HandleFunc("GET /ready", w.getReady)
	w.HandleFunc("PUT /background", httpserver.Handle(maxBody, w.putBackground))
	w.HandleFunc("PUT /background/change", httpserver.Handle(maxBody, w.putChange))
	return w, nil
}

// Serve serves on l until ctx ends.
func (w *writer) Serve(ctx context.Context, l net.Listener) error {
	defer w.client.CloseIdleConnections()
	return w.TokenServer.Serve(ctx, l)
}

func (w *writer) getReady(rw http.ResponseWriter, r *http.Request) {
	if err := w.send(r.Context(), http.MethodGet, "/readyz", "", nil); err != nil {
		httpserver.Refuse(rw, http.StatusServiceUnavailable, "%v", err)
		return
	}
	httpserver.Answer(rw, http.StatusOK, struct{}{})
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9099", "address to listen on")
	tokenFile := flag.String("token-file", "", "file with the token that requests need, to this program and to the API server")
	url := flag.String("url", "", "URL of the API server")
	flag.Parse()
	if err := serve(*listen, *tokenFile, *url); err != nil {
		log.Fatalln("istiod-objects:", err)
	}
}

func serve(listen, tokenFile, url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	token, err := service.ReadToken(tokenFile)
	if err != nil {
		return err
	}
	w, err := newWriter(token, url, token)
	if err != nil {
		return err
	}
	l, err := service.Listen(listen)
	if err != nil {
		return err
	}
	return w.Serve(ctx, l)
}

type object = map[string]any

const (
	namespace      = "default"
	endpointSlices = "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices"
)

func (w *writer) putBackground(r *http.Request, n int) (done struct{}, err error) {
	if err := mesh.CheckBackground(n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(atOnce)
	ports := []object{{"name": "http", "port": 80}}
	for i := range n {
		group.Go(routine.Guarded(func() error {
			metadata := object{"name": mesh.BackgroundName(i), "labels": object{"kubernetes.io/service-name": mesh.BackgroundName(i)}}
			service := object{"metadata": object{"name": mesh.BackgroundName(i)}, "spec": object{"ports": ports}}
			if err := w.create(ctx, "/api/v1/namespaces/"+namespace+"/services", service); err != nil {
				return err
			}
			return w.create(ctx, endpointSlices, object{"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints(0)})
		}))
	}
	if err := group.Wait(); err != nil {
		return done, httpserver.Fail(http.StatusBadGateway, "%w", err)
	}
	w.services.Store(int64(n))
	return done, nil
}

// create creates an object. The namespace may not exist at first.
func (w *writer) create(ctx context.Context, path string, o object) error {
	return wait.Within(ctx, readyTimeout, 100*time.Millisecond, func(ctx context.Context) error {
		return w.send(ctx, http.MethodPost, path, "application/json", o)
	})
}

// putChange gives a service, in turn, the address of a change.
func (w *writer) putChange(r *http.Request, number int) (done struct{}, err error) {
	n := int(w.services.Load())
	if err := mesh.CheckBackgroundChange(number, n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	err = w.send(r.Context(), http.MethodPatch, endpointSlices+"/"+mesh.BackgroundName((number-1)%n), "application/merge-patch+json", object{"endpoints": endpoints(number)})
	if err != nil {
		return done, httpserver.Fail(http.StatusBadGateway, "%w", err)
	}
	return done, nil
}

func endpoints(change int) []object {
	return []object{{"addresses": []string{mesh.BackgroundAddress(change)}, "conditions": object{"ready": true}}}
}

// maxRefusal is the maximum size of a refusal's text, in bytes.
const maxRefusal = 500

func (w *writer) send(ctx context.Context, method, path, media string, body any) error {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // of texts and numbers
	}
	r, err := http.NewRequestWithContext(ctx, method, w.server+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+w.bearer)
	r.Header.Set("Content-Type", media)
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return nil
}
