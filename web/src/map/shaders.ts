// One program draws every way of colouring. The vertex shader turns a row's two bytes into colour, size, shape and
// look (filled, hollow, cross); the fragment shader draws that shape by its distance function.

export const MODES = { label: 0, source: 1, uncertain: 2, hand: 3, novote: 4, draft: 5 } as const;
export const PALETTE = 50; // colours and shapes repeat together after this many classes

export const VERTEX = `#version 300 es
precision highp float;
in vec2 before;
in vec2 after;
in uvec2 mark;
in uint flag; // 1 selected, 2 labelled by hand
uniform vec2 scale, centre;
uniform float moved, size;
uniform int mode;
uniform bool selecting;
uniform vec3 palette[${PALETTE}];
uniform vec3 ink, dim;
flat out vec4 colour;
flat out int shape, look;
flat out float extent;
flat out float outlined;

void main() {
  int c = int(mark.x);
  bool none = c == 255;
  float v = float(mark.y) / 255.;
  int kind = int(mark.y);
  vec3 rgb = none ? dim : palette[c % ${PALETTE}];
  shape = none ? 0 : (c + c / 10) % 5;
  look = 0; // 0 filled, 1 hollow, 2 cross
  outlined = 0.;
  float big = 1., alpha = .85;
  bool front = true, own = false;
  if (mode == 0) {
    big = none ? .6 : mix(.5, 1.08, v * v);
    alpha = none ? .6 : mix(.4, .85, v);
    if ((flag & 2u) != 0u) { outlined = 1.; big = 1.15; alpha = 1.; }
  } else if (mode == 1) {
    front = kind != 0;
    if (kind == 0) { rgb = dim; shape = 0; big = .6; alpha = .8; }
    else if (kind == 2) { look = 1; big = 1.; alpha = .75; }
    else if (kind == 3) { look = 2; rgb = ink; big = 1.1; alpha = .5; }
    else { big = 1.35; alpha = 1.; own = true; }
  } else if (mode == 2) {
    front = v > .25;
    big = mix(.5, 1.5, v);
    alpha = mix(.16, .95, v);
  } else if (mode == 3) {
    front = kind != 0;
    if (kind == 0) { rgb = dim; shape = 0; big = .6; alpha = .8; }
    else if (kind == 2) { look = 2; big = 1.6; alpha = 1.; }
    else if (kind == 3) { look = 1; big = 1.25; }
    else { big = 1.25; alpha = 1.; }
  } else if (mode == 4) {
    front = kind == 0;
    if (kind == 0) { rgb = ink; shape = 0; big = .95; alpha = .8; }
    else if (kind == 1) { look = 1; alpha = .7; }
    else { big = .7; alpha = .3; }
  } else {
    front = kind == 2 || (kind == 1 && !none);
    if (!front) { rgb = dim; shape = 0; big = .6; alpha = .8; }
    else if (kind == 2) { outlined = 1.; big = 1.6; alpha = 1.; }
    else { look = 1; big = 1.3; alpha = 1.; }
  }
  if (selecting) {
    bool picked = (flag & 1u) != 0u;
    if (!picked) { alpha *= .22; front = false; outlined = 0.; } else { front = true; alpha = 1.; big = max(big, 1.); }
  }
  colour = vec4(rgb, alpha);
  extent = max(1.5, size * big);
  vec2 at = (mix(before, after, moved) - centre) * scale;
  gl_Position = vec4(at, own ? -.6 : front ? -.5 : .5, 1.); // what stands out hides what stands back
  gl_PointSize = extent + 1.;
}`;

export const FRAGMENT = `#version 300 es
precision highp float;
flat in vec4 colour;
flat in int shape, look;
flat in float extent;
flat in float outlined;
uniform vec3 ink;
out vec4 pixel;

void main() {
  vec2 p = (gl_PointCoord - .5) * (extent + 1.); // in pixels from the middle
  float r = extent * .5;
  vec2 q = abs(p);
  float d;
  if (look == 2) d = max(min(abs(p.x - p.y), abs(p.x + p.y)) * .7071 - max(.7, extent * .09), max(q.x, q.y) - r * .8);
  else if (shape == 0) d = length(p) - r * .86;
  else if (shape == 1) d = (q.x + q.y - r) * .7071;
  else if (shape == 2) d = max(q.x, q.y) - r * .76;
  else {
    float y = shape == 3 ? -p.y : p.y;
    d = max(-y - r * .62, q.x * .866 + y * .5 - r * .52);
  }
  float width = max(.8, extent * .11);
  if (look == 1) d = abs(d + width) - width;
  float cover = clamp(.5 - d, 0., 1.) * colour.a;
  if (cover <= .003) discard;
  vec3 rgb = outlined > 0. ? mix(colour.rgb, ink, clamp(d + 1.3, 0., 1.)) : colour.rgb;
  pixel = vec4(rgb * cover, cover);
}`;
