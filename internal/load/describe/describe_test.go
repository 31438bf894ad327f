package describe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
)

const item = `{"id": "x", "count": 3, "price": {"units": "7", "currency": "CHF"}, "at": "2026-01-02T03:04:05Z", "extra": {"@type": "type.googleapis.com/money.Amount", "units": "9"}}`

func shop(t *testing.T) *files {
	t.Helper()
	f := must.Get(compile(t.Context(), []string{"testdata/shop.proto"}, []string{"testdata/imports"}))(t)
	return f
}

// fileSet returns all files of f, imports last, with or without the files of package money.
func fileSet(f *files, money bool) *descriptorpb.FileDescriptorSet {
	set := &descriptorpb.FileDescriptorSet{}
	f.all.RangeFiles(func(d protoreflect.FileDescriptor) bool {
		if money || d.Package() != "money" {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(d))
		}
		return true
	})
	return set
}

// serve starts grpc-go with health, and with what register adds.
func serve(t *testing.T, register func(*grpc.Server), options ...grpc.ServerOption) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	register(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "http://" + l.Addr().String()
}

// described is the info of services that the server has by reflection alone.
type described []string

func (d described) GetServiceInfo() map[string]grpc.ServiceInfo {
	info := map[string]grpc.ServiceInfo{}
	for _, name := range d {
		info[name] = grpc.ServiceInfo{}
	}
	return info
}

func options(t *testing.T) reflection.ServerOptions {
	f := shop(t)
	all := must.Get(protodesc.NewFiles(fileSet(f, true)))(t)
	return reflection.ServerOptions{Services: described{"shop.Cart"}, DescriptorResolver: all}
}

// Every source gives the same method and the same messages.
func TestSourcesAgree(t *testing.T) {
	o := options(t)
	from := map[string]load.GRPCQuery{
		"v1": {Profile: load.Profile{Targets: []string{serve(t, func(s *grpc.Server) { reflectionpb.RegisterServerReflectionServer(s, reflection.NewServerV1(o)) })}}},
		"v1alpha": {Profile: load.Profile{Targets: []string{serve(t, func(s *grpc.Server) {
			grpc_reflection_v1alpha.RegisterServerReflectionServer(s, reflection.NewServer(o))
		})}}},
		"proto":  {Protos: []string{"testdata/shop.proto"}, ImportPaths: []string{"testdata/imports"}},
		"import": {Protos: []string{"shop.proto"}, ImportPaths: []string{"testdata/imports", "testdata"}},
	}
	want := dynamicpb.NewMessage(mustFind(t, shop(t)).Methods().ByName("Add").Input())
	must.OK(t, (protojson.UnmarshalOptions{Resolver: shop(t).types()}).Unmarshal([]byte(item), want))
	encoded, _ := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	for name, q := range from {
		for m, streams := range map[string][2]bool{"Add": {false, false}, "Fill": {true, false}, "Watch": {false, true}, "Chat": {true, true}} {
			q.Method, q.Data, q.Source = "shop.Cart/"+m, []byte(item), "--data"
			r, err := Answer(t.Context(), q)
			if err != nil {
				t.Errorf("%s, %s: %v", name, m, err)
				continue
			}
			d := r.Methods[0]
			if d.Request != "shop.Item" || d.Response != "shop.Order" || [2]bool{d.ClientStreams, d.ServerStreams} != streams || len(r.Messages) != 1 || string(r.Messages[0]) != string(encoded) {
				t.Errorf("%s, %s: %+v, %x", name, m, d, r.Messages)
			}
		}
		q.Data = nil
		for asked, n := range map[string]int{"": 4, "shop.Cart": 4} {
			q.Method = asked
			r, err := Answer(t.Context(), q)
			if err != nil || len(r.Methods) != n || r.Methods[0].Name != "Add" {
				t.Errorf("%s, %q: %+v, %v", name, asked, r.Methods, err)
			}
		}
	}
}

func mustFind(t *testing.T, f *files) protoreflect.ServiceDescriptor {
	t.Helper()
	s := must.Get(f.service("shop.Cart"))(t)
	return s
}

func TestMessagesOfAStream(t *testing.T) {
	for data, want := range map[string]int{``: 1, ` {}`: 1, `{"id":"a"} {"id":"b"}`: 2, `[{"id":"a"},{"id":"b"},{}]`: 3, "{}\n{}\n": 2} {
		r, err := Answer(t.Context(), load.GRPCQuery{Protos: []string{"testdata/shop.proto"}, ImportPaths: []string{"testdata/imports"}, Method: "shop.Cart/Chat", Data: []byte(data), Source: "--data"})
		if err != nil || len(r.Messages) != want {
			t.Errorf("%q: %d messages, %v", data, len(r.Messages), err)
		}
	}
}

// Every mistake has its place, and what helps.
func TestMistakes(t *testing.T) {
	bare := serve(t, func(*grpc.Server) {})
	locked := serve(t, func(s *grpc.Server) { reflection.Register(s) }, grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if md, _ := metadata.FromIncomingContext(s.Context()); !slices.Equal(md["authorization"], []string{"Bearer s3cret"}) {
			return status.Error(codes.Unauthenticated, "no token")
		}
		return next(srv, s)
	}))
	broken := must.File(t, t.TempDir(), "broken.proto", "syntax = \"proto3\";\nimport \"absent.proto\";\nmessage A {\n  strin a = 1;\n}\n")
	files := load.GRPCQuery{Protos: []string{"testdata/shop.proto"}, ImportPaths: []string{"testdata/imports"}}
	with := func(q load.GRPCQuery, m, data string) load.GRPCQuery {
		q.Method, q.Data, q.Source = m, []byte(data), "order.json"
		return q
	}
	server := func(url string, headers ...string) load.GRPCQuery {
		return load.GRPCQuery{Profile: load.Profile{Targets: []string{url}, Headers: headers}}
	}
	for _, test := range []struct {
		q          load.GRPCQuery
		text, help string
	}{
		{server(bare), "has no reflection service", "--proto FILE"},
		{server(locked), "no token", "-H"},
		{server("http://127.0.0.1:1"), "127.0.0.1:1: ", "grpcs://"},
		{with(files, "shop.Kart/Add", ""), "service shop.Kart is unknown", "services: shop.Cart"},
		{with(files, "shop.Cart/Ad", ""), "service shop.Cart has no method Ad", "methods: Add, Fill, Watch, Chat"},
		{with(files, "shop.Item/Add", ""), "service shop.Item is unknown", "services: "},
		{with(files, "shop.Cart/Add", "{\n  \"ident\": 1}"), `order.json:2:3: shop.Item: unknown field "ident"`, `a request: {"id":"","count":0`},
		{with(files, "shop.Cart/Fill", "{}\n {\"count\": \"many\"}"), `order.json:2:`, "a request: "},
		{with(files, "shop.Cart/Add", "{} {}"), "order.json has 2 messages, and shop.Cart.Add takes one", ""},
		{with(files, "shop.Cart/Fill", "[]"), "order.json has no message", ""},
		{with(files, "shop.Cart/Add", "{\n]"), "order.json:2:1: invalid character", ""},
		{with(files, "shop.Cart/Add", "{"), "order.json:1:2: ", ""},
		{load.GRPCQuery{Protos: []string{"testdata/shop.proto"}}, "money/money.proto", "--import-path"},
		{load.GRPCQuery{Protos: []string{broken}}, "broken.proto:2:8: ", "--import-path"},
		{load.GRPCQuery{Protos: []string{"testdata/absent.proto"}}, "absent.proto", ""},
	} {
		_, err := Answer(t.Context(), test.q)
		if err == nil || !strings.Contains(err.Error(), test.text) || !strings.Contains(hint.Of(err), test.help) {
			t.Errorf("%q: %v\n  hint %q", test.text, err, hint.Of(err))
		}
	}
	r, err := Answer(t.Context(), server(locked, "Authorization: Bearer s3cret"))
	if err != nil || !slices.ContainsFunc(r.Methods, func(m load.GRPCMethod) bool {
		return m.Service == "grpc.health.v1.Health" && m.Name == "Watch" && m.ServerStreams
	}) {
		t.Errorf("%+v, %v", r.Methods, err)
	}
}

// hostile is a reflection service whose files import others without end.
type hostile struct {
	reflectionpb.UnimplementedServerReflectionServer
}

func (hostile) ServerReflectionInfo(s grpc.BidiStreamingServer[reflectionpb.ServerReflectionRequest, reflectionpb.ServerReflectionResponse]) error {
	for n := 0; ; n++ {
		q, err := s.Recv()
		if err != nil {
			return err
		}
		a := &reflectionpb.ServerReflectionResponse{}
		if q.GetListServices() != "" {
			a.MessageResponse = &reflectionpb.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: &reflectionpb.ListServiceResponse{Service: []*reflectionpb.ServiceResponse{{Name: "a.B"}}}}
		} else {
			b, err := proto.Marshal(&descriptorpb.FileDescriptorProto{Name: proto.String(fmt.Sprint(n)), Dependency: []string{fmt.Sprint(n + 1)}})
			if err != nil {
				return err
			}
			a.MessageResponse = &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: &reflectionpb.FileDescriptorResponse{FileDescriptorProto: [][]byte{b}}}
		}
		if err := s.Send(a); err != nil {
			return err
		}
	}
}

func TestEndlessImports(t *testing.T) {
	url := serve(t, func(s *grpc.Server) { reflectionpb.RegisterServerReflectionServer(s, hostile{}) })
	_, err := Answer(t.Context(), load.GRPCQuery{Profile: load.Profile{Targets: []string{url}}, Method: "a.B/C"})
	must.Fail(t, err, "describes more than")
}

func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Answer(ctx, load.GRPCQuery{Profile: load.Profile{Targets: []string{"http://127.0.0.1:1"}}}); err == nil || errors.Is(err, errNotFound) {
		t.Error(err)
	}
}
