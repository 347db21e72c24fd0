// Command provider is a small Terraform provider, for the test of the recipe in docs/recipes.md. It is
// a module of its own, since other tests need none of its dependencies. Its resource says which
// process made it, and of which lease that was the service.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func main() {
	debug := flag.Bool("debug", false, "stay, for many runs of Terraform")
	flag.Parse()
	if err := serve(*debug); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves Terraform until it is told to stop. It appends its process id and the generation of its
// lease to the file TOY_STARTS.
func serve(debug bool) error {
	starts, err := os.OpenFile(os.Getenv("TOY_STARTS"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer starts.Close()
	if _, err := fmt.Fprintln(starts, os.Getpid(), generation()); err != nil {
		return err
	}
	return providerserver.Serve(context.Background(), func() provider.Provider { return toy{} },
		providerserver.ServeOpts{Address: "registry.terraform.io/leasectl/toy", Debug: debug})
}

// generation is that of the lease whose service this is.
func generation() string { return os.Getenv("LEASECTL_GENERATION") }

type toy struct{}

func (toy) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName = "toy"
}

func (toy) Schema(_ context.Context, _ provider.SchemaRequest, r *provider.SchemaResponse) {
	r.Schema = providerschema.Schema{Attributes: map[string]providerschema.Attribute{
		"region": providerschema.StringAttribute{Required: true},
	}}
}

func (toy) Configure(ctx context.Context, q provider.ConfigureRequest, r *provider.ConfigureResponse) {
	var c struct {
		Region types.String `tfsdk:"region"`
	}
	r.Diagnostics.Append(q.Config.Get(ctx, &c)...)
	r.ResourceData = c.Region
}

func (toy) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (toy) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return new(thing) }}
}

// thing is a resource without a world behind it.
type thing struct{ region types.String }

// made is the state of a thing.
type made struct {
	Name       types.String `tfsdk:"name"`
	Region     types.String `tfsdk:"region"`
	Process    types.Int64  `tfsdk:"process"`
	Generation types.String `tfsdk:"generation"`
}

func (*thing) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "toy_thing"
}

func (*thing) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	r.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"name":       schema.StringAttribute{Required: true},
		"region":     schema.StringAttribute{Computed: true}, // of the provider
		"process":    schema.Int64Attribute{Computed: true},  // of the provider
		"generation": schema.StringAttribute{Computed: true}, // of the lease that the provider was started with
	}}
}

func (t *thing) Configure(_ context.Context, q resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	t.region, _ = q.ProviderData.(types.String) // nil if only the schema is wanted
}

func (t *thing) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var m made
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	m.Region, m.Process, m.Generation = t.region, types.Int64Value(int64(os.Getpid())), types.StringValue(generation())
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

func (t *thing) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var m made
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

func (*thing) Read(context.Context, resource.ReadRequest, *resource.ReadResponse)       {}
func (*thing) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
