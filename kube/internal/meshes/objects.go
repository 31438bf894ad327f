package meshes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// manifests are objects to apply.
type manifests []*unstructured.Unstructured

// apply applies the objects, dependencies first.
func (all manifests) apply(ctx context.Context, c *cluster.Cluster, s cluster.Stamp, report func(string)) error {
	first := []string{"Namespace", "CustomResourceDefinition", "ServiceAccount"}
	rank := func(o *unstructured.Unstructured) int {
		if i := slices.Index(first, o.GetKind()); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	defined := false
	for _, o := range all {
		if o.GetKind() != "CustomResourceDefinition" && defined {
			c.Rediscover()
			defined = false
		}
		if err := c.Apply(ctx, s, runtime.Object(o)); err != nil {
			return err
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := c.WaitReady(ctx, report, cluster.Ref{Kind: kindCRD, Name: o.GetName()}); err != nil {
				return err
			}
			defined = true
		}
	}
	if defined {
		c.Rediscover()
	}
	return nil
}

// redacted replaces the values of Secrets by the first digits of their digests, and removes private keys.
func redacted(stream []byte) ([]byte, error) {
	all, err := cluster.Parse(stream)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, o := range all {
		if o.GetKind() == "Secret" {
			for _, field := range []string{"data", "stringData"} {
				values, _, _ := unstructured.NestedMap(o.Object, field)
				for name, value := range values {
					sum := sha256.Sum256(fmt.Append(nil, value))
					values[name] = "SECRET-" + hex.EncodeToString(sum[:4])
				}
				if len(values) > 0 {
					o.Object[field] = values
				}
			}
		}
		text, err := yaml.Marshal(withoutKeys(o.Object))
		if err != nil {
			return nil, err
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.Bytes(), nil
}

var privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`)

// withoutKeys removes private keys from all strings of a value.
func withoutKeys(v any) any {
	switch v := v.(type) {
	case string:
		return privateKey.ReplaceAllString(v, "SECRET-key")
	case map[string]any:
		for key, value := range v {
			v[key] = withoutKeys(value)
		}
	case []any:
		for i, value := range v {
			v[i] = withoutKeys(value)
		}
	}
	return v
}

// Limits of a download.
const (
	fetchWithin = time.Minute
	fetchLimit  = 8 << 20 // bytes, as the largest CRD of the Gateway API has half a megabyte
)

// fetch downloads a file and checks its digest.
func fetch(ctx context.Context, f mesh.File) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", f.URL, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, hint.New("without internet access, use a local directory that contains it: --charts DIR", "fetch %s: %w", f.URL, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: status %s", f.URL, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, fetchLimit))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", f.URL, err)
	}
	if sum := sha256.Sum256(text); !strings.EqualFold(hex.EncodeToString(sum[:]), f.SHA256) {
		return nil, fmt.Errorf("fetch %s: its SHA-256 is %x, expected %s", f.URL, sum, f.SHA256)
	}
	return text, nil
}
