// SoftHSM, whose C_Sign hangs while the file $SOFTHSM2_CONF.hangs exists.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// CK_FUNCTION_LIST of PKCS #11 2.40: a version and 68 functions, of which C_Sign has the number 43.
struct functions {
    unsigned char version[2];
    void *function[68];
};

typedef unsigned long sign(unsigned long, unsigned char *, unsigned long, unsigned char *, unsigned long *);

static sign *sign_of_softhsm;

static unsigned long hanging_sign(unsigned long session, unsigned char *data, unsigned long data_length,
                                  unsigned char *signature, unsigned long *signature_length) {
    char name[4096];
    snprintf(name, sizeof name, "%s.hangs", getenv("SOFTHSM2_CONF"));
    while (access(name, F_OK) == 0) {
        usleep(1000);
    }
    return sign_of_softhsm(session, data, data_length, signature, signature_length);
}

unsigned long C_GetFunctionList(struct functions **list) {
    static struct functions changed;
    struct functions *real;
    void *library = dlopen(SOFTHSM, RTLD_NOW);
    unsigned long (*get)(struct functions **) = library ? dlsym(library, "C_GetFunctionList") : NULL;
    if (get == NULL || get(&real) != 0) {
        return 5; // CKR_GENERAL_ERROR
    }
    memcpy(&changed, real, sizeof changed);
    sign_of_softhsm = (sign *)real->function[43];
    changed.function[43] = (void *)hanging_sign;
    *list = &changed;
    return 0;
}
