package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// background are services that no request calls: one endpoint each, in one file of clusters (CDS), and on streams of ADS.
type background struct {
	changes []int // by service: the number of its last change, 0 for none
	written int
	streams
}

// putBackground sets their number.
func (p *Plane) putBackground(_ *http.Request, n int) (done struct{}, err error) {
	if err := mesh.CheckBackground(n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.background.changes = make([]int, n)
	return done, p.writeBackground()
}

// changeBackground gives one of them, in turn, another endpoint after the delay.
func (p *Plane) changeBackground(_ *http.Request, number int) (done struct{}, err error) {
	due := time.Now().Add(p.Delay)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.background.changes)
	if err := mesh.CheckBackgroundChange(number, n); err != nil {
		return done, httpserver.Fail(http.StatusBadRequest, "%w", err)
	}
	return done, p.enqueue(due, func() (func() error, error) {
		return func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			changed := (number - 1) % n
			p.background.changes[changed] = number
			p.push(changed)
			return p.writeBackground()
		}, nil
	})
}

const backgroundFile = "background.json"

// restoreBackground reads and writes the services of an earlier process in the same directory, or none.
func (p *Plane) restoreBackground() error {
	text, err := os.ReadFile(filepath.Join(p.dir, backgroundFile))
	var earlier struct {
		Version   int               `json:"version_info,string"`
		Resources []json.RawMessage `json:"resources"`
	}
	if err == nil {
		err = json.Unmarshal(text, &earlier)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", backgroundFile, err)
	}
	p.background.written = earlier.Version
	p.background.changes = make([]int, len(earlier.Resources))
	return p.writeBackground()
}

func (p *Plane) writeBackground() error {
	clusters := make([]object, 0, len(p.background.changes))
	for i, change := range p.background.changes {
		name := mesh.BackgroundName(i)
		address := object{"socket_address": object{"address": backgroundAddress(change), "port_value": backgroundPort}}
		clusters = append(clusters, object{
			"@type": mesh.ClusterType, "name": name, "type": "STATIC", "connect_timeout": "10s",
			"load_assignment": object{"cluster_name": name, "endpoints": []object{{"lb_endpoints": []object{{"endpoint": object{"address": address}}}}}},
		})
	}
	p.background.written++
	return p.publish(backgroundFile, fmt.Sprint(p.background.written), clusters...)
}

const backgroundPort = 1

// backgroundAddress is the address of a service after its last change.
func backgroundAddress(change int) string {
	if change == 0 {
		return "127.0.0.1"
	}
	return mesh.BackgroundAddress(change)
}
