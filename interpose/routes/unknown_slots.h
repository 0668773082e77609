/* The number of trampolines. For C and assembly. */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_SLOTS_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_SLOTS_H

/* CUDA 13.1 to 13.4 added about fifty functions; OpenGL, EGL and VDPAU have thirty. */
#define GP_UNKNOWN_SLOTS 256

#endif
